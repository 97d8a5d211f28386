# Makes an image of nothing but busybox:  image.sh FOLDER NAME
set -eu
cd "$1"
mkdir -p root/bin root/proc root/sys root/dev root/tmp
cp "$(command -v busybox)" root/bin/busybox
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C root -cf layer.tar .
layer=$(sha256sum layer.tar | cut -d' ' -f1)
cat >config.json <<END
{"architecture":"amd64","os":"linux","config":{"Cmd":["/bin/busybox","sleep","1000000"]},
"rootfs":{"type":"layers","diff_ids":["sha256:$layer"]}}
END
echo "[{\"Config\":\"config.json\",\"RepoTags\":[\"$2\"],\"Layers\":[\"layer.tar\"]}]" >manifest.json
tar -cf image.tar manifest.json config.json layer.tar
