// Makes test vectors with the kubelet's own packages. The versions of Kubernetes are in versions.txt: the program
// "prepare" writes one go.mod per version from this one.
module pinfold.dev/generate

go 1.26.0
