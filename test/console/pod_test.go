package console

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
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/programs"
)

const (
	// imageRepository is the one image that there is, and imageProgram where its
	// program is.
	imageRepository = "slipway.dev/slipway"
	imageProgram    = "/usr/local/bin/slipway"
	// podLook is the pause between two questions of a probe, and volumeLook that between
	// two looks at what volumes show.
	podLook      = 250 * time.Millisecond
	volumeLook   = 2 * time.Second
	probeTimeout = 5 * time.Second
	// longestMessage is how much of a log is in the status of a container that failed.
	longestMessage = 2048
)

// enterPod is what a container is started by: in mounts and a host name of its own, with
// the Pod's files as its root. It ends with the container in its place.
const enterPod = `echo "$1" >/proc/sys/kernel/hostname
mount --bind "$2" "$3` + imageProgram + `"
mount --rbind /proc "$3/proc"
cd "$3"
root=$3
shift 3
exec chroot "$root" "$@"`

// pod is one Pod of a node, with one container.
type pod struct {
	node    *node
	object  *corev1.Pod
	address netip.Addr
	root    string
	log     programs.Output

	leaving chan struct{} // closed when it is to go
	once    sync.Once

	// What was told last of the container.
	status  corev1.ContainerStatus
	started metav1.Time
}

func newPod(n *node, object *corev1.Pod, address netip.Addr, root string) *pod {
	return &pod{node: n, object: object.DeepCopy(), address: address, root: root, leaving: make(chan struct{}), started: metav1.Now()}
}

func (p *pod) container() *corev1.Container { return &p.object.Spec.Containers[0] }

func (p *pod) leave() { p.once.Do(func() { close(p.leaving) }) }

// run runs the container until the Pod is to go, or the node ends.
func (p *pod) run(ctx context.Context) {
	for again := true; again; {
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

// runOnce starts the container, and gives whether it is to be started again.
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
		ExitCode: int32(code), Reason: "Completed", StartedAt: started, FinishedAt: metav1.Now(), Message: p.lastWords(code),
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

// lastWords are what the status of a container says that failed.
func (p *pod) lastWords(code int) string {
	text := p.log.String()
	if code == 0 || p.container().TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		return ""
	}
	return text[max(0, len(text)-longestMessage):]
}

// follow probes the container and keeps its volumes true until it has ended, which is
// true, or is to end.
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
			_ = p.mountAll(ctx) // what is missing meanwhile stays as it was, as with a kubelet
		}
	}
}

// probe asks what the readiness probe asks.
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
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusBadRequest {
		return errors.New(answer.Status)
	}
	return nil
}

// stop ends a container as a kubelet does. At the end of the test it is killed: nobody
// waits for what it would still do.
func (p *pod) stop(ctx context.Context, process *programs.Process) {
	defer context.AfterFunc(ctx, process.Kill)()
	process.Grace = time.Duration(corev1.DefaultTerminationGracePeriodSeconds) * time.Second
	if given := p.object.Spec.TerminationGracePeriodSeconds; given != nil {
		process.Grace = time.Duration(*given) * time.Second
	}
	_ = process.End(nil) // how it ended does not matter any more
}

// pause waits before another start; false is no other.
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

// prepare makes the container's files, and what starts it.
func (p *pod) prepare(ctx context.Context) (*exec.Cmd, error) {
	spec := &p.object.Spec
	switch image, _, _ := strings.Cut(p.container().Image, ":"); {
	case len(spec.Containers) != 1 || len(spec.InitContainers) > 0:
		return nil, errors.New("this node runs Pods with one container")
	case image != imageRepository:
		return nil, fmt.Errorf("there is no image %s here", p.container().Image)
	case len(p.container().Command) > 0:
		return nil, errors.New("this node runs the program of the image only")
	}
	trusted, err := os.ReadFile(p.node.trusted)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		imageProgram: nil, "/etc/ssl/certs/ca-certificates.crt": trusted,
		"/etc/hosts": fmt.Appendf(nil, "127.0.0.1 localhost\n%s %s\n", p.address, p.object.Name),
	}
	for path, content := range files {
		if err := write(filepath.Join(p.root, path), content); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(p.root, "proc"), 0o755), os.MkdirAll(filepath.Join(p.root, "tmp"), 0o755), p.mountAll(ctx)); err != nil {
		return nil, err
	}
	environment, err := p.environment(ctx)
	if err != nil {
		return nil, err
	}
	words := append([]string{"--mount", "--uts", "sh", "-e", "-c", enterPod, "sh", p.object.Name, p.node.program, p.root, imageProgram}, p.container().Args...)
	command := exec.Command("unshare", words...)
	command.Env, command.Stdout, command.Stderr = environment, &p.log, &p.log
	return command, nil
}

func (p *pod) waiting(ctx context.Context, reason, message string) {
	p.status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	p.report(ctx, corev1.PodPending, false)
}

// report tells the API server how the Pod is.
func (p *pod) report(ctx context.Context, phase corev1.PodPhase, ready bool) {
	state := corev1.ConditionFalse
	if ready {
		state = corev1.ConditionTrue
	}
	p.status.Name, p.status.Image, p.status.ImageID = p.container().Name, p.container().Image, p.container().Image
	p.status.Ready = ready
	now := metav1.Now()
	told := corev1.PodStatus{
		Phase: phase, PodIP: p.address.String(), PodIPs: []corev1.PodIP{{IP: p.address.String()}}, StartTime: &p.started,
		ContainerStatuses: []corev1.ContainerStatus{p.status},
	}
	for kind, state := range map[corev1.PodConditionType]corev1.ConditionStatus{
		corev1.PodScheduled: corev1.ConditionTrue, corev1.PodInitialized: corev1.ConditionTrue, corev1.ContainersReady: state, corev1.PodReady: state,
	} {
		told.Conditions = append(told.Conditions, corev1.PodCondition{Type: kind, Status: state, LastTransitionTime: now})
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.object.UID}, "status": told})
	for err == nil && ctx.Err() == nil {
		_, failed := p.node.cluster.Client.CoreV1().Pods(p.object.Namespace).Patch(ctx, p.object.Name, types.MergePatchType, text, metav1.PatchOptions{}, "status")
		if failed == nil || !p.pause(ctx) {
			return
		}
	}
}
