// Package kubelet is a node for tests: it registers with an API server, and runs
// the Pods of Slipway's image as processes. It has no knowledge of other
// images, of which it may claim that they run.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

const (
	// processNode is the label of the devcluster's own node, which runs demo images
	// and nothing else. It is tainted with the same word, so that only they go there.
	processNode = "slipway.dev/process-node"
	// leaseRenewal and leaseDuration are those of a kubelet.
	leaseRenewal  = 10 * time.Second
	leaseDuration = 40 * time.Second
	// firstPod is the last byte of the first Pod's address: those below belong to the
	// node of the devcluster.
	firstPod = 200
)

// Options are the settings of a Node.
type Options struct {
	// Name is the name of the Node object, and Program what the image has.
	Name, Program string
	// Image reports whether an image is the one that the node runs. Pods of
	// others fail, or are ready without a process if Pretend is set.
	Image   func(image string) bool
	Pretend bool
	// Trusted returns the authorities in the image, and Hosts more lines for
	// /etc/hosts. Both are called at each start of a container.
	Trusted func() []byte
	Hosts   string
}

// Node is a node that runs one image. The scheduler assigns it Pods, and it runs
// their containers as processes with what the API server has: arguments,
// environment, volumes and the token of the ServiceAccount. The status of a Pod
// comes from its probe and its end. mu guards the fields below it.
type Node struct {
	cluster *kubetest.Cluster
	options Options
	dir     string

	running sync.WaitGroup
	// Impatient kills containers that have to end, without the time to drain. It is
	// for a test that only cleans up.
	Impatient atomic.Bool

	mu   sync.Mutex
	pods map[types.UID]*pod
	// taken has the last byte of the addresses that Pods have.
	taken map[byte]bool
	// ended has the exit codes of ended containers by their name.
	ended map[string][]int
}

// Start adds a node to a cluster until the end of the test.
func Start(t testing.TB, cluster *kubetest.Cluster, options Options) *Node {
	t.Helper()
	n := &Node{cluster: cluster, options: options, dir: t.TempDir(), pods: map[types.UID]*pod{}, taken: map[byte]bool{}, ended: map[string][]int{}}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		n.running.Wait()
		if t.Failed() {
			n.ShowLogs(t)
		}
	})
	must.Do(t, n.register(ctx, n.serveLogs(t)))
	n.running.Go(func() { n.keepAlive(ctx) })
	factory := informers.NewSharedInformerFactoryWithOptions(cluster.Client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", options.Name).String()
	}))
	must.Get(factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { n.see(ctx, object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { n.see(ctx, object.(*corev1.Pod)) },
		DeleteFunc: func(object any) {
			if gone, ok := object.(*corev1.Pod); ok {
				n.forget(gone.UID)
			}
		},
	}))(t)
	factory.StartWithContext(ctx)
	n.running.Go(func() {
		<-ctx.Done()
		factory.Shutdown()
	})
	return n
}

// ip returns the address of the node, for which the API server has a certificate.
func (n *Node) ip() netip.Addr { return n.cluster.PodNetwork.Addr().Next() }

// register creates the Node, with the port of its logs, and its Lease.
func (n *Node) register(ctx context.Context, logs int32) error {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("50"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}
	name := n.options.Name
	made := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux"}}}
	made.Status = corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity,
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.ip().String()}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Ready", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}},
	}
	made.Status.DaemonEndpoints.KubeletEndpoint.Port = logs
	_, err := n.cluster.Client.CoreV1().Nodes().Create(ctx, made, metav1.CreateOptions{})
	now, seconds := metav1.NowMicro(), int32(leaseDuration/time.Second)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
	_, leaseErr := n.cluster.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, lease, metav1.CreateOptions{})
	return errors.Join(err, leaseErr)
}

// keepAlive renews the Lease.
func (n *Node) keepAlive(ctx context.Context) {
	ticks := time.NewTicker(leaseRenewal)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
		// A failed one is followed by others before the Lease ends.
		_, _ = n.cluster.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(ctx, n.options.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	}
}

// see starts a new Pod, and ends one that is being deleted.
func (n *Node) see(ctx context.Context, object *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.pods[object.UID]
	if known == nil {
		bytes := n.cluster.PodNetwork.Addr().As4()
		for bytes[3] = firstPod; n.taken[bytes[3]]; bytes[3]++ {
		}
		n.taken[bytes[3]] = true
		known = newPod(n, object, netip.AddrFrom4(bytes), filepath.Join(n.dir, string(object.UID)))
		n.pods[object.UID] = known
		n.running.Go(func() { known.run(ctx) })
	}
	if object.DeletionTimestamp != nil {
		known.leave()
	}
}

// forget frees the address of a Pod that does not exist any more.
func (n *Node) forget(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.pods[uid]; known != nil {
		known.leave()
		known.gone = true
		delete(n.taken, known.address.As4()[3])
	}
}

// note records the end of a container.
func (n *Node) note(container string, code int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended[container] = append(n.ended[container], code)
}

// Address returns the address of a ready Pod whose container has a first
// argument, such as agent.
func (n *Node) Address(part string) (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range n.pods {
		if args := one.container().Args; one.ready.Load() && len(args) > 0 && args[0] == part {
			return one.address, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no Pod of the part %s is ready", part)
}

// Ends returns the exit codes of the ended containers of a name.
func (n *Node) Ends(container string) []int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended[container]
}

// ShowLogs prints the ends of the logs of the Pods that exist, the newest first.
func (n *Node) ShowLogs(t testing.TB) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	exist := slices.DeleteFunc(slices.Collect(maps.Values(n.pods)), func(one *pod) bool { return one.gone })
	slices.SortFunc(exist, func(a, b *pod) int { return b.started.Compare(a.started.Time) })
	for _, one := range exist {
		programs.ShowLog(t, "the Pod "+one.object.Namespace+"/"+one.object.Name, one.log.String())
	}
}

// ReserveProcessNode taints the devcluster's own node, which would refuse the
// images of a runtime.
func ReserveProcessNode(t testing.TB, cluster *kubetest.Cluster) {
	t.Helper()
	nodes := kubetest.WaitFor(t, cluster.Client.CoreV1().Nodes(), metav1.ListOptions{LabelSelector: processNode + "=true"}, programs.Timeout, func(found []*corev1.Node) error {
		if len(found) == 0 {
			return errors.New("the node is not registered")
		}
		return nil
	})
	const patch = `{"spec":{"taints":[{"key":"` + processNode + `","effect":"NoSchedule"}]}}`
	for _, one := range nodes {
		must.Get(cluster.Client.CoreV1().Nodes().Patch(t.Context(), one.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
	}
}
