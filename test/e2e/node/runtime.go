package node

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// startRuntime starts a private containerd and imports the images. Its root and
// socket are separate from those of the host, so a containerd that runs there
// is not affected.
func (n *Node) startRuntime(ctx context.Context) error {
	// Plugins that need a kernel module, a block device or a trace collector
	// are disabled: they would only log errors. SystemdCgroup is off because
	// the kubelet uses cgroupfs.
	config := n.cfg.path("containerd.toml")
	err := write(config, fmt.Sprintf(`version = 2
root = %[1]q
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.tracing"]

[grpc]
  address = %[2]q

[plugins."io.containerd.grpc.v1.cri"]
  # Where negative scores are not permitted, runc fails to set them.
  restrict_oom_score_adj = true
  sandbox_image = %[3]q
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %[4]q
    conf_dir = %[5]q
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
`, n.cfg.path("containerd"), socket, sandboxImage, plugins, n.cfg.path("cni")))
	if err != nil {
		return err
	}
	p, err := n.launch("containerd", "containerd", "--config", config)
	if err != nil {
		return err
	}
	// The socket exists before the service responds, so the version request is
	// what confirms readiness.
	err = p.Await(ctx, lookAgain, func(ctx context.Context) error {
		if _, err := os.Stat(socket); err != nil {
			return err
		}
		_, err := n.containerd(ctx, "version")
		return err
	})
	if err != nil {
		return err
	}
	for _, image := range n.cfg.Images {
		if err := n.LoadImage(ctx, image); err != nil {
			return err
		}
	}
	return nil
}

// containerd runs ctr against the private socket, in the namespace that the CRI
// plugin uses: images imported elsewhere are invisible to the kubelet.
func (n *Node) containerd(ctx context.Context, words ...string) (string, error) {
	return do(ctx, append([]string{"ctr", "--address", socket, "--namespace", "k8s.io"}, words...)...)
}

// LoadImage imports an OCI archive into containerd.
func (n *Node) LoadImage(ctx context.Context, archive string) error {
	_, err := n.containerd(ctx, "images", "import", archive)
	return err
}

// TagImage adds a second name to an imported image. Both names share one
// digest, so an upgrade to the second one replaces Pods without changing the
// program.
func (n *Node) TagImage(ctx context.Context, name, other string) error {
	_, err := n.containerd(ctx, "images", "tag", name, other)
	return err
}

// Containers lists the containers of the runtime as "id image".
func (n *Node) Containers(ctx context.Context) ([]string, error) {
	list, err := n.containerd(ctx, "containers", "list")
	if err != nil {
		return nil, err
	}
	var found []string
	for i, line := range strings.Split(strings.TrimSpace(list), "\n") {
		// The first line is the header of the table.
		if fields := strings.Fields(line); i > 0 && len(fields) > 1 {
			found = append(found, fields[0]+" "+fields[1])
		}
	}
	return found, nil
}
