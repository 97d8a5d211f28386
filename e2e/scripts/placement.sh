# Every policy places four runs of different needs; then several start at the same moment.
for policy in none best-effort restricted single-numa-node; do
    start a --policy $policy --cpus 2 --memory 100Mi
    start b --policy $policy --cpus 3
    start c --policy $policy --cpus 6 --memory 700Mi
    start d --policy $policy --cpus 500m
    section "$policy ps"
    pinfold ps -o json
    look $policy a b c d
    stop a b c d
    section "$policy after"
    pinfold ps -o json
    section "$policy groups"
    groups
done
for name in p q r s t; do
    start $name --cpus 2 --memory 50Mi &
done
for name in p q r s t; do
    wait_for "$T/$name.ready" "$T/$name.rc"
done
section "at once ps"
pinfold ps -o json
look "at once" p q r s t
stop p q r s t
