# The shared pool gives CPUs to a run that gets its own, and gets them back.
start s
start o --cpus "$OWN"
section "shared while others own"
pinfold ps -o json
look "shared while others own" s o
stop o
section "shared afterwards"
pinfold ps -o json
look "shared afterwards" s
stop s
