package console

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync"
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
	"slipway.dev/slipway/internal/programs"
)

const (
	nodeName = "runtimes"
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

// node is a node of a cluster that runs one image: that of slipway. It registers
// itself, the scheduler gives it Pods, and it runs their containers as processes with
// what the API server has: arguments, environment, volumes and the token of the
// ServiceAccount. What it tells of Pods is what their probes and ends were.
type node struct {
	cluster *kubetest.Cluster
	// program is what the image has, and trusted the authorities in it.
	program, trusted string
	dir              string

	running sync.WaitGroup

	mu   sync.Mutex
	pods map[types.UID]*pod
	// taken has the last byte of the addresses that Pods have.
	taken map[byte]bool
	// ended has the containers that came to their end, with their exit codes.
	ended map[string][]int
}

// startNode adds a node to a cluster until the end of the test.
func startNode(t *testing.T, cluster *kubetest.Cluster, program, trusted string) *node {
	t.Helper()
	n := &node{cluster: cluster, program: program, trusted: trusted, dir: t.TempDir(), pods: map[types.UID]*pod{}, taken: map[byte]bool{}, ended: map[string][]int{}}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		n.running.Wait()
		if t.Failed() {
			n.tell(t)
		}
	})
	if err := n.register(ctx); err != nil {
		t.Fatal(err)
	}
	n.running.Go(func() { n.keepAlive(ctx) })
	factory := informers.NewSharedInformerFactoryWithOptions(cluster.Client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", nodeName).String()
	}))
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { n.see(ctx, object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { n.see(ctx, object.(*corev1.Pod)) },
		DeleteFunc: func(object any) {
			if gone, ok := object.(*corev1.Pod); ok {
				n.forget(gone.UID)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(ctx)
	n.running.Go(func() {
		<-ctx.Done()
		factory.Shutdown()
	})
	return n
}

// register makes the Node and its Lease.
func (n *node) register(ctx context.Context) error {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("50"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}
	made := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{corev1.LabelHostname: nodeName, corev1.LabelOSStable: "linux"}}}
	made.Status = corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity,
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: kubetest.HostAddress().String()}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Ready", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}},
	}
	_, err := n.cluster.Client.CoreV1().Nodes().Create(ctx, made, metav1.CreateOptions{})
	now, seconds, holder := metav1.NowMicro(), int32(leaseDuration/time.Second), nodeName
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
	_, leaseErr := n.cluster.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, lease, metav1.CreateOptions{})
	return errors.Join(err, leaseErr)
}

// keepAlive renews the Lease.
func (n *node) keepAlive(ctx context.Context) {
	ticks := time.NewTicker(leaseRenewal)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
		// One that fails is followed by others before the Lease ends.
		_, _ = n.cluster.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(ctx, nodeName, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	}
}

// see takes up a Pod, and ends one that is to go.
func (n *node) see(ctx context.Context, object *corev1.Pod) {
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

func (n *node) forget(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.pods[uid]; known != nil {
		known.leave()
		delete(n.taken, known.address.As4()[3])
	}
}

func (n *node) note(container string, code int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended[container] = append(n.ended[container], code)
}

// ends are the exit codes of the containers of a name that came to their end.
func (n *node) ends(container string) []int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended[container]
}

// tell shows what the Pods said.
func (n *node) tell(t *testing.T) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range n.pods {
		t.Logf("the log of the Pod %s/%s:\n%s", one.object.Namespace, one.object.Name, programs.Tail(one.log.String()))
	}
}

// reserveProcessNode has the devcluster's own node run only what asks for it: it
// would refuse the images of a runtime.
func reserveProcessNode(t *testing.T, cluster *kubetest.Cluster) {
	t.Helper()
	nodes := kubetest.WaitFor(t, cluster.Client.CoreV1().Nodes(), metav1.ListOptions{LabelSelector: processNode + "=true"}, programs.Patience, func(found []*corev1.Node) error {
		if len(found) == 0 {
			return errors.New("the node is not registered")
		}
		return nil
	})
	const patch = `{"spec":{"taints":[{"key":"` + processNode + `","effect":"NoSchedule"}]}}`
	for _, one := range nodes {
		if _, err := cluster.Client.CoreV1().Nodes().Patch(t.Context(), one.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
