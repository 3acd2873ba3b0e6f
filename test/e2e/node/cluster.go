package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// startTimeout bounds the start of one part.
const startTimeout = 3 * time.Minute

// Node is a running cluster.
type Node struct {
	// Kubeconfig is the administrator's, REST and Client are made from it.
	Kubeconfig string
	REST       *rest.Config
	Client     kubernetes.Interface

	cfg    Config
	parts  []*process
	cancel context.CancelFunc
	served []<-chan struct{} // closed when a server of this process has ended
}

// Start brings everything up until the node is ready. A node that is returned has
// to be stopped, with an error too. Progress is told what is there.
func Start(ctx context.Context, cfg Config, progress func(string)) (*Node, error) {
	n := &Node{cfg: cfg, Kubeconfig: cfg.path("cluster", "kubeconfig")}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"namespaces, network and control groups", n.prepare},
		{"containerd, with the images", n.startRuntime},
		{"control plane", n.startControlPlane},
		{"kubelet, and the node is Ready", n.startKubelet},
		{"kube-proxy", n.startProxy},
		{"cluster DNS and load balancers", n.startServices},
	} {
		limited, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not there within %s", startTimeout))
		err := step.do(limited)
		cancel()
		if err != nil {
			return n, fmt.Errorf("%s: %w", step.what, err)
		}
		progress(step.what)
	}
	return n, nil
}

// Stop ends the parts, last started first, and removes what no namespace covers.
func (n *Node) Stop() error {
	if n.cancel != nil {
		n.cancel()
	}
	for _, ended := range n.served {
		<-ended
	}
	var problems []error
	for i := len(n.parts) - 1; i >= 0; i-- {
		problems = append(problems, n.parts[i].stop())
	}
	n.parts = nil
	return errors.Join(append(problems, n.removeGroups())...)
}

// startControlPlane runs etcd, the API server, the controllers and the scheduler.
func (n *Node) startControlPlane(ctx context.Context) error {
	p, err := n.launch("control-plane", filepath.Join(n.cfg.Bin, "slipway-devcluster"),
		"--dir="+n.cfg.path("cluster"), "--port="+apiPort, "--kubelet", "--node-address="+nodeIP)
	if err != nil {
		return err
	}
	err = p.until(ctx, func(ctx context.Context) error {
		// This is the last file that it writes.
		if _, err := os.Stat(n.cfg.path("cluster", "pki", "kubelet-server.crt")); err != nil {
			return err
		}
		config, err := clientcmd.BuildConfigFromFlags("", n.Kubeconfig)
		if err != nil {
			return err
		}
		config.QPS, config.Burst, config.WarningHandler = 200, 400, rest.NoWarnings{}
		n.REST = config
		n.Client, err = kubernetes.NewForConfig(config)
		return err
	})
	if err != nil {
		return err
	}
	// The API server asks the kubelet for logs as this user.
	_, err = n.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kubelet-api"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "kube-apiserver-kubelet-client"}},
	}, metav1.CreateOptions{})
	return err
}

// startKubelet runs the kubelet until the node is ready.
func (n *Node) startKubelet(ctx context.Context) error {
	config := n.cfg.path("kubelet.yaml")
	pki := n.cfg.path("cluster", "pki")
	err := write(config, fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %[2]s/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: %[2]s/kubelet-server.crt
tlsPrivateKeyFile: %[2]s/kubelet-server.key
containerRuntimeEndpoint: unix://%[3]s
clusterDNS: [%[1]s]
clusterDomain: %[4]s
resolvConf: %[5]s/resolv.conf
podLogsDir: %[5]s/pods
volumePluginDir: %[5]s/volume-plugins
cgroupDriver: cgroupfs
cgroupRoot: %[6]s
cgroupsPerQOS: true
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
syncFrequency: 10s
# The disk is the machine's: how full it is says nothing about the node, and images come from archives.
evictionHard: {memory.available: 50Mi, nodefs.available: 1%%, imagefs.available: 1%%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
`, nodeIP, pki, socket, domain, n.cfg.Work, n.group()))
	if err != nil {
		return err
	}
	p, err := n.launch("kubelet", filepath.Join(n.cfg.Bin, "slipway-node"), "kubelet", "--config="+config,
		"--kubeconfig="+n.cfg.path("cluster", "kubeconfig.kubelet"), "--hostname-override="+Name, "--node-ip="+nodeIP, "--root-dir="+n.cfg.path("kubelet"))
	if err != nil {
		return err
	}
	return p.until(ctx, func(ctx context.Context) error {
		found, err := n.Client.CoreV1().Nodes().Get(ctx, Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range found.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				if condition.Status == corev1.ConditionTrue {
					return nil
				}
				return errors.New(condition.Message)
			}
		}
		return errors.New("the node tells nothing yet")
	})
}

// startProxy runs kube-proxy, which makes addresses of Services work.
func (n *Node) startProxy(ctx context.Context) error {
	config := n.cfg.path("kube-proxy.yaml")
	err := write(config, fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: %s
hostnameOverride: %s
clientConnection: {kubeconfig: %s}
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
iptables: {syncPeriod: 30s, minSyncPeriod: 0s}
# The table of connections is the machine's.
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
oomScoreAdj: 0
`, podRange, Name, n.cfg.path("cluster", "kubeconfig.kube-proxy")))
	if err != nil {
		return err
	}
	p, err := n.launch("kube-proxy", filepath.Join(n.cfg.Bin, "slipway-node"), "kube-proxy", "--config="+config)
	if err != nil {
		return err
	}
	return p.until(ctx, func(ctx context.Context) error {
		rules, err := do(ctx, "iptables-save", "-t", "nat")
		if err == nil && !strings.Contains(rules, "-d "+kubernetesIP+"/32") {
			err = errors.New("the Service kubernetes has no rules yet")
		}
		return err
	})
}

// Kubectl runs kubectl of the cluster's version.
func (n *Node) Kubectl(ctx context.Context, words ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, filepath.Join(n.cfg.Bin, "slipway-devcluster"), append([]string{"kubectl", "--kubeconfig=" + n.Kubeconfig}, words...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}
