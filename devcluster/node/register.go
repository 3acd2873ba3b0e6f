package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"

	"golang.org/x/sys/unix"
)

const (
	leaseRenewal  = 10 * time.Second
	leaseDuration = 40 * time.Second
	// heartbeatAge is how old a condition's heartbeat may become before it is written again without a change. The
	// Lease is what keeps the Node alive; this is only for people who read the Node.
	heartbeatAge = time.Minute

	retryFirst = 500 * time.Millisecond
	retryLast  = 10 * time.Second
)

// ProcessNodeLabel is set to "true" on the Node, so that workloads can choose or avoid process nodes.
const ProcessNodeLabel = "slipway.dev/process-node"

// registration keeps the Node object and its Lease.
type registration struct {
	cfg      Config
	client   kubernetes.Interface
	capacity corev1.ResourceList
	port     int32 // of the logs endpoint
	version  string
}

// register creates the Node, or takes over the one that exists, and reports its status. It tries until it succeeds and
// returns false when ctx is done first.
func (r *registration) register(ctx context.Context) bool {
	return untilDone(ctx, func() error {
		if err := r.attempt(ctx); err != nil {
			r.cfg.Log.Warn("cannot register the node yet; trying again", "node", r.cfg.Name, "error", err)
			return err
		}
		return nil
	})
}

func (r *registration) attempt(ctx context.Context) error {
	if err := r.readVersion(ctx); err != nil {
		return fmt.Errorf("read the version of the API server: %w", err)
	}
	if err := r.refresh(ctx); err != nil {
		return err
	}
	return r.renewLease(ctx)
}

func (r *registration) readVersion(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	data, err := r.client.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return err
	}
	var info version.Info
	if err := json.Unmarshal(data, &info); err != nil {
		return err
	}
	r.version = info.GitVersion
	return nil
}

// keepAlive renews the Lease and repairs the Node until ctx is done.
func (r *registration) keepAlive(ctx context.Context) {
	tick := time.NewTicker(leaseRenewal)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := r.renewLease(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Log.Warn("cannot renew the node's lease", "node", r.cfg.Name, "error", err)
		}
		if err := r.refresh(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Log.Warn("cannot report the node's status", "node", r.cfg.Name, "error", err)
		}
	}
}

// refresh makes the Node object what it should be. It reads first: a Node that someone deleted comes back, and one that
// was marked unknown while the machine slept becomes ready again.
func (r *registration) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	nodes := r.client.CoreV1().Nodes()
	current, err := nodes.Get(ctx, r.cfg.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		current, err = nodes.Create(ctx, r.desired(&corev1.Node{}), metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", r.cfg.Name, err)
	}
	desired := r.desired(current)
	if !maps.Equal(current.Labels, desired.Labels) {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": desired.Labels}})
		if err != nil {
			return err
		}
		if _, err := nodes.Patch(ctx, r.cfg.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("labels of node %s: %w", r.cfg.Name, err)
		}
	}
	r.fillStatus(&desired.Status, metav1.Now().Rfc3339Copy())
	if equality.Semantic.DeepEqual(current.Status, desired.Status) {
		return nil
	}
	patch, err := nodeStatusPatch(current, desired)
	if err != nil {
		return err
	}
	if _, err := nodes.Patch(ctx, r.cfg.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("status of node %s: %w", r.cfg.Name, err)
	}
	return nil
}

// desired is the Node without its status: everything that others wrote is kept.
func (r *registration) desired(current *corev1.Node) *corev1.Node {
	node := current.DeepCopy()
	node.Name = r.cfg.Name
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	node.Labels[corev1.LabelHostname] = r.cfg.Name
	node.Labels[corev1.LabelOSStable] = runtime.GOOS
	node.Labels[corev1.LabelArchStable] = runtime.GOARCH
	node.Labels[ProcessNodeLabel] = "true"
	if current.UID == "" && r.cfg.PodCIDR.IsValid() {
		node.Spec.PodCIDR = r.cfg.PodCIDR.Masked().String()
		node.Spec.PodCIDRs = []string{node.Spec.PodCIDR}
	}
	return node
}

// fillStatus writes what the node knows of itself. Heartbeats move only when they are old, so that an unchanged status
// compares equal.
func (r *registration) fillStatus(status *corev1.NodeStatus, now metav1.Time) {
	status.Capacity = r.capacity
	status.Allocatable = r.capacity
	status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: r.cfg.Address.String()},
		{Type: corev1.NodeHostName, Address: r.cfg.Name},
	}
	status.DaemonEndpoints.KubeletEndpoint.Port = r.port
	info := &status.NodeInfo
	info.KubeletVersion = r.version
	info.ContainerRuntimeVersion = "slipway-process://1"
	info.OperatingSystem = runtime.GOOS
	info.Architecture = runtime.GOARCH
	info.OSImage = osImage()
	info.KernelVersion = kernelVersion()
	info.BootID = firstLine("/proc/sys/kernel/random/boot_id")
	info.MachineID = firstLine("/etc/machine-id")

	set := func(kind corev1.NodeConditionType, state corev1.ConditionStatus, reason, message string) {
		setNodeCondition(status, corev1.NodeCondition{Type: kind, Status: state, Reason: reason, Message: message}, now)
	}
	set(corev1.NodeReady, corev1.ConditionTrue, "ProcessNodeReady", "built-in images run as local processes")
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		set(kind, corev1.ConditionFalse, "NotMeasured", "the process node does not measure this")
	}
}

func setNodeCondition(status *corev1.NodeStatus, c corev1.NodeCondition, now metav1.Time) {
	for i := range status.Conditions {
		old := &status.Conditions[i]
		if old.Type != c.Type {
			continue
		}
		same := old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message
		if same && now.Sub(old.LastHeartbeatTime.Time) < heartbeatAge {
			return
		}
		c.LastHeartbeatTime, c.LastTransitionTime = now, now
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		*old = c
		return
	}
	c.LastHeartbeatTime, c.LastTransitionTime = now, now
	status.Conditions = append(status.Conditions, c)
}

func nodeStatusPatch(current, desired *corev1.Node) ([]byte, error) {
	before, err := json.Marshal(corev1.Node{Status: current.Status})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(corev1.Node{Status: desired.Status})
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Node{})
}

// renewLease writes the node's Lease, creating it when it is missing.
func (r *registration) renewLease(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	leases := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Get(ctx, r.cfg.Name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return err
	}
	if missing {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: r.cfg.Name, Namespace: corev1.NamespaceNodeLease}}
	}
	duration, now := int32(leaseDuration/time.Second), metav1.NowMicro()
	lease.Spec.HolderIdentity = &r.cfg.Name
	lease.Spec.LeaseDurationSeconds = &duration
	lease.Spec.RenewTime = &now
	if missing {
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return err
}

// machineCapacity is what the scheduler may count on. Nothing is reserved: the processes are small and few.
func machineCapacity(dir string) corev1.ResourceList {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:  *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourcePods: *resource.NewQuantity(110, resource.DecimalSI),
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		capacity[corev1.ResourceMemory] = *resource.NewQuantity(int64(info.Totalram)*int64(info.Unit), resource.BinarySI)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err == nil {
		capacity[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(fs.Blocks)*fs.Bsize, resource.BinarySI)
	}
	return capacity
}

func osImage() string {
	data, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return runtime.GOOS
	}
	for line := range strings.Lines(string(data)) {
		if value, found := strings.CutPrefix(line, "PRETTY_NAME="); found {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return runtime.GOOS
}

func kernelVersion() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

func firstLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}

// untilDone calls try until it succeeds, waiting longer after each failure. It returns false when ctx is done first.
func untilDone(ctx context.Context, try func() error) bool {
	for delay := retryFirst; ; delay = min(2*delay, retryLast) {
		if ctx.Err() != nil {
			return false
		}
		if try() == nil {
			return true
		}
		if !pause(ctx, delay) {
			return false
		}
	}
}

// pause waits, and returns false when ctx is done first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
