//! Three networks: the outside, where the server is; a router that translates addresses; the inside.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

/// The networks, until they are dropped.
pub struct Internet {
    keeper: Child,
    /// Processes that hold the outside and the inside.
    holders: [u32; 2],
}

/// One of the networks.
pub struct Network {
    holder: u32,
}

impl Internet {
    pub fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args([
            "--user",
            "--map-root-user",
            "--net",
            "--kill-child",
            "--fork",
        ]);
        command.args(["bash", "-c", SCRIPT]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = command.spawn().expect("unshare, which util-linux has");
        let mut said = String::new();
        let output = keeper.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut said).expect("text");
        let numbers: Vec<u32> = said
            .split_whitespace()
            .filter_map(|it| it.parse().ok())
            .collect();
        let Ok(holders) = <[u32; 2]>::try_from(numbers) else {
            panic!("no networks: {said:?}; it needs user namespaces, iproute2 and nftables");
        };
        Self { keeper, holders }
    }

    /// Where the server is, at 198.51.100.1.
    pub fn outside(&self) -> Network {
        let [holder, _] = self.holders;
        Network { holder }
    }

    /// Where the telephone is, at 10.0.0.2; others see it at 198.51.100.2.
    pub fn inside(&self) -> Network {
        let [_, holder] = self.holders;
        Network { holder }
    }
}

impl Network {
    /// The same command, in this network.
    pub fn run(&self, program: &Command) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--preserve-credentials", "--user", "--net"]);
        command.arg(format!("--target={}", self.holder));
        command
            .arg("--")
            .arg(program.get_program())
            .args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }
}

impl Drop for Internet {
    fn drop(&mut self) {
        // It ends when its input does, and the networks with it.
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Says the processes that hold the outside and the inside, and lasts until its input ends.
const SCRIPT: &str = r#"
set -e
unshare --net sleep infinity & router=$!
unshare --net sleep infinity & inside=$!
trap 'kill $router $inside' EXIT
within() { nsenter --net --target "$@"; }
# Until they have a network of their own.
for one in $router $inside; do
  while [ "$(readlink /proc/$one/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
done
ip link set lo up
ip link add s0 type veth peer name r0
ip link set r0 netns $router
ip address add 198.51.100.1/24 dev s0
ip link set s0 up
within $router ip link add r1 type veth peer name p0
within $router ip link set p0 netns $inside
within $router ip address add 198.51.100.2/24 dev r0
within $router ip address add 10.0.0.1/24 dev r1
within $router ip link set r0 up
within $router ip link set r1 up
within $router sysctl --quiet --write net.ipv4.ip_forward=1
within $router nft add table ip nat
within $router nft add chain ip nat leaving '{ type nat hook postrouting priority srcnat; }'
within $router nft add rule ip nat leaving oifname r0 masquerade fully-random
within $router sysctl --quiet --write net.netfilter.nf_conntrack_udp_timeout=4 net.netfilter.nf_conntrack_udp_timeout_stream=4
within $inside ip link set lo up
within $inside ip address add 10.0.0.2/24 dev p0
within $inside ip link set p0 up
within $inside ip route add default via 10.0.0.1
echo $$ $inside
read -r _ || true
"#;
