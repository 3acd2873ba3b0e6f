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
	// leaseRenewal and leaseDuration are the kubelet's. The node lifecycle
	// controller marks the Node unknown when the Lease is not renewed for its
	// grace period.
	leaseRenewal  = 10 * time.Second
	leaseDuration = 40 * time.Second
	// heartbeatAge is the age at which a condition's heartbeat is written again
	// without a change. The Lease keeps the Node alive; the heartbeat is only
	// for users who read the Node.
	heartbeatAge = time.Minute

	// retryFirst and retryLast bound the exponential backoff of requests to the
	// API server.
	retryFirst = 500 * time.Millisecond
	retryLast  = 10 * time.Second
)

// ProcessNodeLabel is set to "true" on the Node, so that workloads can choose
// or avoid process nodes.
const ProcessNodeLabel = "slipway.dev/process-node"

// registration maintains the Node object and its Lease. keepAlive runs after
// register has returned, so there is no lock.
type registration struct {
	cfg      Config
	client   kubernetes.Interface
	capacity corev1.ResourceList
	port     int32 // port of the logs endpoint
	version  string
}

// register creates the Node, or adopts the one that exists, and writes its
// status. It retries with backoff until it succeeds, and returns false when ctx
// is done first.
func (r *registration) register(ctx context.Context) bool {
	return untilDone(ctx, func() error {
		if err := r.attempt(ctx); err != nil {
			r.cfg.Log.Warn("cannot register the node yet; trying again", "node", r.cfg.Name, "error", err)
			return err
		}
		return nil
	})
}

// attempt is one try of register. The version is read first, because the Node
// reports it; the Lease comes last, when the Node exists.
func (r *registration) attempt(ctx context.Context) error {
	if err := r.readVersion(ctx); err != nil {
		return fmt.Errorf("read the version of the API server: %w", err)
	}
	if err := r.refresh(ctx); err != nil {
		return err
	}
	return r.renewLease(ctx)
}

// readVersion reads the version of the API server, which the node reports as
// its kubelet version: in the development cluster both are the same binary. It
// requests /version directly, because the discovery client takes no context.
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

// keepAlive renews the Lease and reconciles the Node every leaseRenewal until
// ctx is done. A failure is logged and retried at the next tick: the lease
// duration leaves room for several.
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

// refresh reconciles the Node object. It reads first: a Node that was deleted
// is created again, and one that was marked unknown while the machine slept
// becomes ready again. Labels and status are separate requests, because status
// is a subresource.
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

// desired returns the Node with the node's own labels; everything that other
// clients wrote is kept. The Pod CIDR is set only at creation: the API does not
// allow a change.
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

// fillStatus sets the parts of the status that the node owns. Heartbeats move
// only when they are old, so that an unchanged status compares equal and is not
// written.
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

// setNodeCondition replaces or appends a condition. An unchanged one with a
// recent heartbeat is left alone; the transition time moves only when the
// status does.
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

// nodeStatusPatch returns the strategic merge patch between two statuses. A
// patch leaves the conditions of other controllers alone, and cannot conflict
// with their writes as an update could.
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

// renewLease writes the node's Lease, creating it when it is missing. The
// update carries the resource version of the read; after a conflict the next
// tick retries.
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

// machineCapacity returns the resources that the scheduler may use. Nothing is
// reserved for the system: the processes are small and few. The limit of 110
// Pods is the kubelet's default. A resource that cannot be measured is left
// out.
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

// osImage returns the name of the operating system from os-release, or GOOS
// when there is none.
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

// kernelVersion returns the release of the running kernel, or "" when it is not
// available.
func kernelVersion() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

// firstLine returns the first line of a file, or "" when it cannot be read: the
// identifiers of the machine are informational.
func firstLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}

// untilDone calls try until it succeeds, with exponential backoff between
// retryFirst and retryLast. It returns false when ctx is done first.
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

// pause waits for d; it returns false when ctx is done first.
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
