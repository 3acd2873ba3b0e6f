package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/programs"
)

const (
	// imageProgram is where the image has its program.
	imageProgram = "/usr/local/bin/slipway"
	// podLook is the interval of probes, and volumeLook that of updates of volumes.
	podLook      = 250 * time.Millisecond
	volumeLook   = 2 * time.Second
	probeTimeout = 5 * time.Second
	// longestMessage is how much of a log is in the status of a container that failed.
	longestMessage = 2048
)

// enterPod starts a container with mounts and a host name of its own and with the
// Pod's files as its root. The shell is replaced by the container.
const enterPod = `echo "$1" >/proc/sys/kernel/hostname
mount --bind "$2" "$3` + imageProgram + `"
mount --rbind /proc "$3/proc"
mount --rbind /dev "$3/dev"
cd "$3"
root=$3
shift 3
exec chroot "$root" "$@"`

// pod is one Pod of a node, with one container. Only run changes status.
type pod struct {
	node    *Node
	object  *corev1.Pod
	address netip.Addr
	root    string
	log     programs.Output

	leaving chan struct{} // closed when it is deleted
	once    sync.Once

	// gone is set when the object is deleted. It is guarded by the node's mu.
	gone bool

	ready   atomic.Bool
	status  corev1.ContainerStatus
	started metav1.Time
}

// newPod makes a pod that does not run yet.
func newPod(n *Node, object *corev1.Pod, address netip.Addr, root string) *pod {
	return &pod{node: n, object: object.DeepCopy(), address: address, root: root, leaving: make(chan struct{}), started: metav1.Now()}
}

// container returns the only container.
func (p *pod) container() *corev1.Container { return &p.object.Spec.Containers[0] }

// leave ends the Pod.
func (p *pod) leave() {
	p.once.Do(func() { close(p.leaving) })
	p.ready.Store(false)
}

// run runs the container until the Pod is deleted or the node ends.
func (p *pod) run(ctx context.Context) {
	for again := !p.pretend(ctx); again; {
		again = p.runOnce(ctx)
	}
	select {
	case <-ctx.Done():
		return
	case <-p.leaving:
	}
	now := int64(0)
	// It fails when the object is gone already.
	_ = p.node.cluster.Client.CoreV1().Pods(p.object.Namespace).Delete(ctx, p.object.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(p.object.UID))})
}

// pretend reports whether the Pod has another image, and marks it as ready then.
func (p *pod) pretend(ctx context.Context) bool {
	if !p.node.options.Pretend || p.node.options.Image(p.container().Image) {
		return false
	}
	p.status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	p.report(ctx, corev1.PodRunning, true)
	return true
}

// runOnce runs the container once, and reports whether to start it again.
func (p *pod) runOnce(ctx context.Context) bool {
	var process *programs.Process
	command, err := p.prepare(ctx)
	if err == nil {
		process, err = programs.Start(p.object.Name, command)
	}
	if err != nil {
		p.waiting(ctx, "CreateContainerError", err.Error())
		return p.pause(ctx)
	}
	started := metav1.Now()
	p.status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}
	p.report(ctx, corev1.PodRunning, p.container().ReadinessProbe == nil)
	ended := p.follow(ctx, process.Exited())
	if !ended {
		p.stop(ctx, process)
		return false
	}
	code := process.State().ExitCode()
	p.node.note(p.container().Name, code)
	p.status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: int32(code), Reason: "Completed", StartedAt: started, FinishedAt: metav1.Now(), Message: p.message(code),
	}}
	if p.object.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		p.status.LastTerminationState = p.status.State
		p.status.RestartCount++
		p.waiting(ctx, "CrashLoopBackOff", "it ended with "+strconv.Itoa(code))
		return p.pause(ctx)
	}
	phase := corev1.PodSucceeded
	if code != 0 {
		phase, p.status.State.Terminated.Reason = corev1.PodFailed, "Error"
	}
	p.report(ctx, phase, false)
	return false
}

// message returns the termination message of a container that failed.
func (p *pod) message(code int) string {
	text := p.log.String()
	if code == 0 || p.container().TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		return ""
	}
	return text[max(0, len(text)-longestMessage):]
}

// follow probes the container and updates its volumes. It returns true when the
// container has ended, and false when it must be stopped.
func (p *pod) follow(ctx context.Context, exited <-chan struct{}) bool {
	ticks, looks := time.NewTicker(podLook), time.NewTicker(volumeLook)
	defer ticks.Stop()
	defer looks.Stop()
	ready, failures := p.container().ReadinessProbe == nil, int32(0)
	for {
		select {
		case <-exited:
			return true
		case <-p.leaving:
			return false
		case <-ctx.Done():
			return false
		case <-ticks.C:
			failures++
			if p.probe(ctx) == nil {
				failures = 0
			}
			if now := failures == 0 || ready && failures < p.container().ReadinessProbe.FailureThreshold; now != ready && ctx.Err() == nil {
				ready = now
				p.report(ctx, corev1.PodRunning, ready)
			}
		case <-looks.C:
			_ = p.mountAll(ctx) // a missing object leaves the files as they are, as with a kubelet
		}
	}
}

// probe sends the request of the readiness probe.
func (p *pod) probe(ctx context.Context) error {
	probe := p.container().ReadinessProbe
	if probe == nil {
		return nil
	}
	if probe.HTTPGet == nil {
		return errors.New("the probe is not by HTTP")
	}
	port := probe.HTTPGet.Port.IntVal
	for _, declared := range p.container().Ports {
		if declared.Name != "" && declared.Name == probe.HTTPGet.Port.StrVal {
			port = declared.ContainerPort
		}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	address := fmt.Sprintf("http://%s%s", netip.AddrPortFrom(p.address, uint16(port)), probe.HTTPGet.Path)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		return errors.New(response.Status)
	}
	return nil
}

// stop ends a container as a kubelet does. At the end of the test it is killed,
// because no test depends on its last seconds.
func (p *pod) stop(ctx context.Context, process *programs.Process) {
	if p.node.Impatient.Load() {
		process.Kill()
		return
	}
	defer context.AfterFunc(ctx, process.Kill)()
	process.Grace = time.Duration(corev1.DefaultTerminationGracePeriodSeconds) * time.Second
	if given := p.object.Spec.TerminationGracePeriodSeconds; given != nil {
		process.Grace = time.Duration(*given) * time.Second
	}
	_ = process.End(nil) // its exit code is not used
}

// pause waits before another start, and reports whether there is one.
func (p *pod) pause(ctx context.Context) bool {
	again := time.NewTimer(4 * podLook)
	defer again.Stop()
	select {
	case <-p.leaving:
		return false
	case <-ctx.Done():
		return false
	case <-again.C:
		return true
	}
}

// prepare writes the container's files, and returns the command that starts it.
func (p *pod) prepare(ctx context.Context) (*exec.Cmd, error) {
	spec := &p.object.Spec
	switch {
	case len(spec.Containers) != 1 || len(spec.InitContainers) > 0:
		return nil, errors.New("this node runs Pods with one container")
	case !p.node.options.Image(p.container().Image):
		return nil, fmt.Errorf("there is no image %s here", p.container().Image)
	case len(p.container().Command) > 0:
		return nil, errors.New("this node runs the program of the image only")
	}
	files := map[string][]byte{
		imageProgram: nil, "/etc/ssl/certs/ca-certificates.crt": p.node.options.Trusted(),
		"/etc/hosts": fmt.Appendf(nil, "127.0.0.1 localhost\n%s %s\n%s", p.address, p.object.Name, p.node.options.Hosts),
	}
	for path, content := range files {
		if err := write(filepath.Join(p.root, path), content); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(p.root, "proc"), 0o755), os.MkdirAll(filepath.Join(p.root, "dev"), 0o755), os.MkdirAll(filepath.Join(p.root, "tmp"), 0o755), p.mountAll(ctx)); err != nil {
		return nil, err
	}
	environment, err := p.environment(ctx)
	if err != nil {
		return nil, err
	}
	words := append([]string{"--mount", "--uts", "sh", "-e", "-c", enterPod, "sh", p.object.Name, p.node.options.Program, p.root, imageProgram}, p.container().Args...)
	command := exec.Command("unshare", words...)
	command.Env, command.Stdout, command.Stderr = environment, &p.log, &p.log
	return command, nil
}

// waiting reports a container that is not running.
func (p *pod) waiting(ctx context.Context, reason, message string) {
	p.status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	p.report(ctx, corev1.PodPending, false)
}

// report writes the status of the Pod. It repeats a write that failed.
func (p *pod) report(ctx context.Context, phase corev1.PodPhase, ready bool) {
	state := corev1.ConditionFalse
	if ready {
		state = corev1.ConditionTrue
	}
	p.status.Name, p.status.Image, p.status.ImageID = p.container().Name, p.container().Image, p.container().Image
	p.status.Ready = ready
	select {
	case <-p.leaving:
	default:
		p.ready.Store(ready)
	}
	now := metav1.Now()
	status := corev1.PodStatus{
		Phase: phase, HostIP: p.node.ip().String(), PodIP: p.address.String(), PodIPs: []corev1.PodIP{{IP: p.address.String()}}, StartTime: &p.started,
		ContainerStatuses: []corev1.ContainerStatus{p.status},
	}
	for kind, state := range map[corev1.PodConditionType]corev1.ConditionStatus{
		corev1.PodScheduled: corev1.ConditionTrue, corev1.PodInitialized: corev1.ConditionTrue, corev1.ContainersReady: state, corev1.PodReady: state,
	} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: state, LastTransitionTime: now})
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.object.UID}, "status": status})
	for err == nil && ctx.Err() == nil {
		_, failed := p.node.cluster.Client.CoreV1().Pods(p.object.Namespace).Patch(ctx, p.object.Name, types.MergePatchType, text, metav1.PatchOptions{}, "status")
		if failed == nil || !p.pause(ctx) {
			return
		}
	}
}
