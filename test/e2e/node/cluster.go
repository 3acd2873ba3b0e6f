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

	"slipway.dev/slipway/internal/programs"
)

// startTimeout bounds the start of each component.
const startTimeout = 3 * time.Minute

// Node is a running cluster. Start and Stop are called by one goroutine; the
// exported fields are set by Start and read-only afterwards.
type Node struct {
	// Kubeconfig is the file of the cluster administrator. REST and Client are
	// built from it, and are nil until the control plane is up.
	Kubeconfig string
	REST       *rest.Config
	Client     kubernetes.Interface

	// parts are in start order, which Stop reverses. cancel stops the servers
	// of this process (DNS and load balancers), and served has a channel for
	// each that is closed when the server has returned.
	cfg    Config
	parts  []*programs.Process
	cancel context.CancelFunc
	served []<-chan struct{} // closed when a server of this process has ended
}

// Start starts all components in order and returns when the node is Ready. The
// caller has to stop the returned node even if there is an error, because the
// components before the failed one are running. progress is called after each
// step.
func Start(ctx context.Context, cfg Config, progress func(string)) (*Node, error) {
	n := &Node{cfg: cfg, Kubeconfig: cfg.path("cluster", "kubeconfig")}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		// The order is that of the dependencies: the kubelet needs the runtime
		// and the API server, and DNS and load balancers need the API server.
		{"namespaces, network and control groups", n.prepare},
		{"containerd, with the images", n.startRuntime},
		{"control plane", n.startControlPlane},
		{"kubelet, and the node is Ready", n.startKubelet},
		{"kube-proxy", n.startProxy},
		{"cluster DNS and load balancers", n.startServices},
	} {
		// The cause replaces "context deadline exceeded" in the error.
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

// Stop stops the components in reverse start order, so that each one still
// reaches the components it depends on, and then removes the control groups. It
// returns all errors together; one component that hangs does not keep the
// others running.
func (n *Node) Stop() error {
	// The servers use the API server, so they stop before it does.
	if n.cancel != nil {
		n.cancel()
	}
	for _, ended := range n.served {
		<-ended
	}
	var problems []error
	for i := len(n.parts) - 1; i >= 0; i-- {
		problems = append(problems, stop(n.parts[i]))
	}
	n.parts = nil
	return errors.Join(append(problems, n.removeGroups())...)
}

// startControlPlane runs etcd, the API server, the controller manager and the
// scheduler in one process, and creates the clients.
func (n *Node) startControlPlane(ctx context.Context) error {
	p, err := n.launch("control-plane", filepath.Join(n.cfg.Bin, "slipway-devcluster"),
		"--dir="+n.cfg.path("cluster"), "--port="+apiPort, "--kubelet", "--node-address="+nodeIP)
	if err != nil {
		return err
	}
	err = p.Await(ctx, lookAgain, func(ctx context.Context) error {
		// slipway-devcluster writes this file last, so all credentials exist.
		if _, err := os.Stat(n.cfg.path("cluster", "pki", "kubelet-server.crt")); err != nil {
			return err
		}
		config, err := clientcmd.BuildConfigFromFlags("", n.Kubeconfig)
		if err != nil {
			return err
		}
		// The default of 5 requests per second would dominate the duration of
		// the test, and deprecation warnings would hide its output.
		config.QPS, config.Burst, config.WarningHandler = 200, 400, rest.NoWarnings{}
		n.REST = config
		n.Client, err = kubernetes.NewForConfig(config)
		return err
	})
	if err != nil {
		return err
	}
	// The API server connects to the kubelet as this user, for logs and exec.
	_, err = n.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kubelet-api"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "kube-apiserver-kubelet-client"}},
	}, metav1.CreateOptions{})
	return err
}

// startKubelet starts the kubelet and waits for the Ready condition of the
// node.
func (n *Node) startKubelet(ctx context.Context) error {
	// enforceNodeAllocatable is empty and cgroupRoot is the run's own group, so
	// the kubelet limits nothing outside of it. oomScoreAdj stays 0 because
	// lowering it needs a capability that a container may lack.
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
# The disk is the machine's: its usage is not that of the node, and images come from archives.
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
	return p.Await(ctx, lookAgain, func(ctx context.Context) error {
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
		return errors.New("the node reports nothing yet")
	})
}

// startProxy starts kube-proxy, which programs the iptables rules for Services.
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
	return p.Await(ctx, lookAgain, func(ctx context.Context) error {
		// Its health endpoint responds before the first sync. The rules of the
		// first Service are proof that it is done.
		rules, err := do(ctx, "iptables-save", "-t", "nat")
		if err == nil && !strings.Contains(rules, "-d "+kubernetesIP+"/32") {
			err = errors.New("the Service kubernetes has no rules yet")
		}
		return err
	})
}

// Kubectl returns a kubectl command of the cluster's version, as administrator.
// The kernel kills it when this process dies, so an interrupted run leaves
// none.
func (n *Node) Kubectl(ctx context.Context, words ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, filepath.Join(n.cfg.Bin, "slipway-devcluster"), append([]string{"kubectl", "--kubeconfig=" + n.Kubeconfig}, words...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}
