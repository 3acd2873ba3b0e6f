package installdocs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/programs"
)

const (
	nodeName = "worker"
	// nodeTick is how often the node looks at its Pods.
	nodeTick = 100 * time.Millisecond
	// beatEvery is how often it says that it is alive.
	beatEvery = 5 * time.Second
	accounts  = "var/run/secrets/kubernetes.io/serviceaccount"
)

// node does what a kubelet and a cloud do. Pods with our image are processes with a
// root of their own: the files that the chart mounts, the token of the ServiceAccount,
// and nothing else. All have the network of the test, so one process stands for the
// Pods of a part. Pods of others are ready, and nothing runs.
type node struct {
	w       *world
	program string // hard links to it are in the roots
	roots   string
	// untrusting leaves the authority of the hosts out of the image.
	untrusting atomic.Bool

	// Owned by the loop.
	parts  map[string]*podProcess // by the first argument
	beaten time.Time
	log    programs.Output
}

// podProcess is the process of a Pod.
type podProcess struct {
	*programs.Process
	uid types.UID
}

// startNode runs the node until the test ends.
func startNode(t *testing.T, w *world) *node {
	t.Helper()
	n := &node{w: w, roots: t.TempDir(), parts: map[string]*podProcess{}}
	n.program = filepath.Join(n.roots, "slipway")
	content, err := os.ReadFile(w.binary)
	if err == nil {
		err = os.WriteFile(n.program, content, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	made := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	if _, err := w.cluster.Client.CoreV1().Nodes().Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { n.run(ctx) })
	t.Cleanup(func() {
		stop()
		done.Wait()
		if t.Failed() {
			t.Logf("the node and its Pods:\n%s", tail(n.log.String()))
		}
	})
	return n
}

func tail(text string) string { return text[max(0, len(text)-16<<10):] }

func (n *node) run(ctx context.Context) {
	ticks := time.NewTicker(nodeTick)
	defer ticks.Stop()
	for ctx.Err() == nil {
		if err := errors.Join(n.beat(ctx), n.tendPods(ctx), n.beCloud(ctx)); err != nil && ctx.Err() == nil {
			_, _ = fmt.Fprintf(&n.log, "the node: %v\n", err)
		}
		select {
		case <-ctx.Done():
		case <-ticks.C:
		}
	}
	for _, one := range n.parts {
		one.Kill()
	}
}

// beat says that the node is alive, and how large it is.
func (n *node) beat(ctx context.Context) error {
	if time.Since(n.beaten) < beatEvery {
		return nil
	}
	size := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi"), "pods": resource.MustParse("110"), "ephemeral-storage": resource.MustParse("100Gi")}
	now := metav1.Now()
	err := n.patch(ctx, func(body []byte) error {
		_, err := n.w.cluster.Client.CoreV1().Nodes().Patch(ctx, nodeName, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
		return err
	}, corev1.NodeStatus{
		Capacity: size, Allocatable: size, Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: kubetest.HostAddress().String()}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now, LastTransitionTime: now}},
	})
	if err == nil {
		n.beaten = time.Now()
	}
	return err
}

// patch writes a status.
func (n *node) patch(_ context.Context, send func(body []byte) error, status any) error {
	body, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	if err := send(body); !apierrors.IsNotFound(err) {
		return err
	}
	return nil // it is gone
}

func (n *node) tendPods(ctx context.Context) error {
	found, err := n.w.cluster.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	// The newest Pod of a part is the one whose process runs.
	slices.SortFunc(found.Items, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	var problems []error
	for part, one := range n.parts {
		if !slices.ContainsFunc(found.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp == nil && partOf(&pod) == part }) {
			one.Kill()
			delete(n.parts, part)
		}
	}
	seen := map[string]bool{}
	for i := range found.Items {
		pod := &found.Items[i]
		part := partOf(pod)
		problems = append(problems, n.tend(ctx, pod, part, !seen[part]))
		if pod.DeletionTimestamp == nil {
			seen[part] = true
		}
	}
	return errors.Join(problems...)
}

// partOf is the part of Slipway that a Pod is: agent, edge or helm; empty for others.
func partOf(pod *corev1.Pod) string {
	first := pod.Spec.Containers[0]
	if len(first.Args) == 0 || !strings.Contains(first.Image, "slipway:") && !strings.Contains(first.Image, "slipway@") {
		return ""
	}
	return first.Args[0]
}

func (n *node) tend(ctx context.Context, pod *corev1.Pod, part string, newest bool) error {
	switch {
	case pod.DeletionTimestamp != nil:
		zero := int64(0)
		err := n.w.cluster.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	case pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return nil
	case part == "":
		return n.report(ctx, pod, true)
	}
	if newest {
		if err := n.keepRunning(ctx, pod, part); err != nil {
			return err
		}
	}
	one := n.parts[part]
	if one == nil {
		return nil
	}
	if pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		return n.finish(ctx, pod, one)
	}
	return n.report(ctx, pod, n.answers(ctx, pod))
}

// keepRunning has the process of a part be that of a Pod.
func (n *node) keepRunning(ctx context.Context, pod *corev1.Pod, part string) error {
	one := n.parts[part]
	if one != nil && one.uid == pod.UID && (one.Alive() == nil || pod.Spec.RestartPolicy == corev1.RestartPolicyNever) {
		return nil
	}
	if one != nil {
		one.Kill()
		delete(n.parts, part)
	}
	root, err := n.makeRoot(ctx, pod)
	if err != nil {
		return fmt.Errorf("the Pod %s: %w", pod.Name, err)
	}
	started, err := n.start(pod, root)
	if err != nil {
		return err
	}
	n.parts[part] = started
	return nil
}

func (n *node) start(pod *corev1.Pod, root string) (*podProcess, error) {
	container := pod.Spec.Containers[0]
	words := n.w.named(append([]string{
		"sh", "-c", `mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" /slipway "$@"`, root,
	}, container.Args...)...)
	command := exec.Command(words[0], words[1:]...)
	api, err := url.Parse(n.w.cluster.Config.Host)
	if err != nil {
		return nil, err
	}
	command.Env = []string{"KUBERNETES_SERVICE_HOST=" + api.Hostname(), "KUBERNETES_SERVICE_PORT=" + api.Port(), "PATH=" + os.Getenv("PATH")}
	for _, variable := range container.Env {
		value := variable.Value
		if from := variable.ValueFrom; from != nil && from.FieldRef != nil && from.FieldRef.FieldPath == "spec.nodeName" {
			value = pod.Spec.NodeName
		}
		command.Env = append(command.Env, variable.Name+"="+value)
	}
	_, _ = fmt.Fprintf(&n.log, "the Pod %s starts\n", pod.Name)
	output := &programs.Output{}
	command.Stdout, command.Stderr = output, output
	process, err := programs.Start(pod.Name, command)
	if err != nil {
		return nil, err
	}
	go func() {
		state := process.State()
		_, _ = fmt.Fprintf(&n.log, "the Pod %s ended with %v:\n%s\n", pod.Name, state, tail(output.String()))
	}()
	return &podProcess{process, pod.UID}, nil
}

// makeRoot writes what a container of the Pod sees as its files.
func (n *node) makeRoot(ctx context.Context, pod *corev1.Pod) (string, error) {
	root, err := os.MkdirTemp(n.roots, "root-")
	if err != nil {
		return "", err
	}
	files := map[string][]byte{}
	if err := n.mounted(ctx, pod, files); err != nil {
		return "", err
	}
	token, err := n.w.cluster.Client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	files[accounts+"/token"], files[accounts+"/namespace"], files[accounts+"/ca.crt"] = []byte(token.Status.Token), []byte(pod.Namespace), n.w.cluster.Config.CAData
	hosts, err := os.ReadFile(n.w.hosts)
	if err != nil {
		return "", err
	}
	files["etc/hosts"] = hosts
	if !n.untrusting.Load() {
		files["etc/ssl/certs/ca-certificates.crt"] = n.w.authority.Cert
	}
	for _, folder := range []string{"proc", "dev", "tmp"} {
		files[folder+"/"] = nil
	}
	for path, content := range files {
		if err := writeUnder(root, path, content); err != nil {
			return "", err
		}
	}
	return root, os.Link(n.program, filepath.Join(root, "slipway"))
}

// writeUnder writes a file, or makes a folder when the path ends with a slash.
func writeUnder(root, path string, content []byte) error {
	full := filepath.Join(root, path)
	if strings.HasSuffix(path, "/") {
		return os.MkdirAll(full, 0o700)
	}
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		return err
	}
	return os.WriteFile(full, content, 0o600)
}

// mounted collects the files of the volumes. One that is not there yet is an error:
// the Pod waits for it.
func (n *node) mounted(ctx context.Context, pod *corev1.Pod, files map[string][]byte) error {
	for _, mount := range pod.Spec.Containers[0].VolumeMounts {
		i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if i < 0 || strings.Contains(mount.MountPath, accounts) {
			continue
		}
		files[mount.MountPath+"/"] = nil
		data, err := n.volume(ctx, pod.Namespace, pod.Spec.Volumes[i])
		if err != nil {
			return err
		}
		for name, content := range data {
			files[mount.MountPath+"/"+name] = content
		}
	}
	return nil
}

func (n *node) volume(ctx context.Context, namespace string, volume corev1.Volume) (map[string][]byte, error) {
	client := n.w.cluster.Client.CoreV1()
	data := map[string][]byte{}
	var items []corev1.KeyToPath
	switch {
	case volume.EmptyDir != nil:
		return nil, nil
	case volume.ConfigMap != nil:
		found, err := client.ConfigMaps(namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		items = volume.ConfigMap.Items
		for key, text := range found.Data {
			data[key] = []byte(text)
		}
	case volume.Secret != nil:
		found, err := client.Secrets(namespace).Get(ctx, volume.Secret.SecretName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && volume.Secret.Optional != nil && *volume.Secret.Optional {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		items, data = volume.Secret.Items, found.Data
	default:
		return nil, fmt.Errorf("the node has no volumes such as %s: %w", volume.Name, fs.ErrInvalid)
	}
	if len(items) == 0 {
		return data, nil
	}
	chosen := map[string][]byte{}
	for _, item := range items {
		content, found := data[item.Key]
		if !found {
			return nil, fmt.Errorf("the volume %s has no key %s", volume.Name, item.Key)
		}
		chosen[item.Path] = content
	}
	return chosen, nil
}

// answers asks the readiness probe.
func (n *node) answers(ctx context.Context, pod *corev1.Pod) bool {
	container := pod.Spec.Containers[0]
	probe := container.ReadinessProbe
	if probe == nil || probe.HTTPGet == nil {
		return true
	}
	port := probe.HTTPGet.Port.IntVal
	for _, one := range container.Ports {
		if one.Name == probe.HTTPGet.Port.StrVal {
			port = one.ContainerPort
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, probe.HTTPGet.Path), nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// report writes that a Pod runs, and whether it is ready.
func (n *node) report(ctx context.Context, pod *corev1.Pod, ready bool) error {
	state := corev1.ConditionFalse
	if ready {
		state = corev1.ConditionTrue
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == state && pod.Status.Phase == corev1.PodRunning {
			return nil
		}
	}
	container := pod.Spec.Containers[0]
	address := kubetest.HostAddress().String()
	return n.patchPod(ctx, pod, corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}, HostIP: address,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: state, LastTransitionTime: metav1.Now()},
			{Type: corev1.ContainersReady, Status: state, LastTransitionTime: metav1.Now()},
		},
		ContainerStatuses: []corev1.ContainerStatus{{Name: container.Name, Image: container.Image, Ready: ready, Started: &ready, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}},
	})
}

// finish writes how a Pod ended that is not started again.
func (n *node) finish(ctx context.Context, pod *corev1.Pod, one *podProcess) error {
	if one.uid != pod.UID || one.Alive() == nil {
		return nil
	}
	phase, code := corev1.PodSucceeded, int32(one.State().ExitCode())
	if code != 0 {
		phase = corev1.PodFailed
	}
	container := pod.Spec.Containers[0]
	ended := corev1.ContainerStateTerminated{ExitCode: code, Message: tail(one.Log.String()), FinishedAt: metav1.Now()}
	return n.patchPod(ctx, pod, corev1.PodStatus{
		Phase:             phase,
		ContainerStatuses: []corev1.ContainerStatus{{Name: container.Name, Image: container.Image, State: corev1.ContainerState{Terminated: &ended}}},
	})
}

func (n *node) patchPod(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	return n.patch(ctx, func(body []byte) error {
		_, err := n.w.cluster.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
		return err
	}, status)
}
