# Follows node-start.sh: installs systemctl.sh with the units of the node, and serves the folder /www, whose program
# `run` runs the scripts of the suite.
mkdir -p /run/units /run/nri /var/log /etc/pinfold /opt/plugin
ln -s /run/node/nri.sock /run/nri/nri.sock
echo $! >/run/units/containerd.pid
install -m 0755 /etc/node/systemctl.sh /bin/systemctl
mkdir -p /www/cgi-bin
cat >/www/cgi-bin/run <<'END'
#!/bin/sh
printf 'Content-Type: text/plain\r\n\r\n'
cd /
script=/tmp/script.$$
head -c "$CONTENT_LENGTH" >$script
sh $script 2>&1
echo "@@ exit $?"
rm -f $script
END
chmod 0755 /www/cgi-bin/run
echo "@@ serving"
httpd -f -p 80 -h /www
