package node

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"slipway.dev/slipway/devcluster/must"
)

func intOrString(s string) intstr.IntOrString { return intstr.Parse(s) }

// readiness probes /readyz of the demo image every second.
func readiness() *corev1.Probe {
	return &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1,
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(8080)}}}
}

func withReadiness(pod *corev1.Pod) { pod.Spec.Containers[0].ReadinessProbe = readiness() }

func grace(seconds int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = &seconds }
}

func TestClusterNode(t *testing.T) {
	c := useCluster(t)
	stop := c.startNode(t, t.TempDir())
	s := c.scene(t)
	version := must.Get(c.client.Discovery().ServerVersion())(t)
	check := func(ctx context.Context) error {
		node, err := c.client.CoreV1().Nodes().Get(ctx, "slipway", metav1.GetOptions{})
		if err != nil {
			return err
		}
		address, err := machineAddress()
		if err != nil {
			return err
		}
		info := node.Status.NodeInfo
		switch {
		case node.Labels[ProcessNodeLabel] != "true" || node.Labels[corev1.LabelHostname] != "slipway" || node.Labels[corev1.LabelOSStable] != "linux":
			return fmt.Errorf("labels are %v", node.Labels)
		case info.KubeletVersion != version.GitVersion || info.ContainerRuntimeVersion != "slipway-process://1" || info.OSImage == "":
			return fmt.Errorf("node info is %+v", info)
		case node.Status.Capacity.Cpu().IsZero() || node.Status.Allocatable.Memory().IsZero() || node.Status.Allocatable.Pods().Value() != 110:
			return fmt.Errorf("capacity is %v", node.Status.Capacity)
		case node.Status.DaemonEndpoints.KubeletEndpoint.Port == 0:
			return fmt.Errorf("there is no port for logs")
		case len(node.Status.Addresses) != 2 || node.Status.Addresses[0].Address != address.String():
			return fmt.Errorf("addresses are %v", node.Status.Addresses)
		case len(node.Spec.Taints) != 0:
			return fmt.Errorf("taints are %v", node.Spec.Taints)
		}
		lease, err := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, "slipway", metav1.GetOptions{})
		if err != nil || *lease.Spec.HolderIdentity != "slipway" || time.Since(lease.Spec.RenewTime.Time) > leaseDuration {
			return fmt.Errorf("lease is %v, %v", lease, err)
		}
		return nil
	}
	s.eventually("the node", check)
	// Someone deletes it; it comes back with the next renewal.
	must.Do(t, c.client.CoreV1().Nodes().Delete(t.Context(), "slipway", metav1.DeleteOptions{}))
	s.eventually("the node again", check)
	stop()
	if _, err := c.client.CoreV1().Nodes().Get(t.Context(), "slipway", metav1.GetOptions{}); err != nil {
		t.Errorf("the node left with its process: %v", err)
	}
}

func TestClusterDeployment(t *testing.T) {
	c := useCluster(t)
	c.startNode(t, t.TempDir())
	s := c.scene(t)
	s.service("web")
	replicas, labels := int32(2), map[string]string{"app": "web"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "slipway.dev/demo:v1", ReadinessProbe: readiness()}}},
			},
		},
	}
	must.Get(c.client.AppsV1().Deployments(s.ns).Create(t.Context(), deployment, metav1.CreateOptions{}))(t)
	s.rolledOut("web", 2)
	first := s.readyEndpoints("web", 2)
	if first[0].at == first[1].at {
		t.Errorf("two Pods share %s", first[0].at)
	}
	for _, e := range first {
		response, _, err := s.ask("GET", "http://"+e.at+"/")
		if err != nil || response.Header.Get("X-Slipway-Pod") != e.pod || response.Header.Get("X-Slipway-Version") != "v1" {
			t.Errorf("%s answered %v, %v", e.pod, response, err)
		}
	}
	if got := s.log(first[0].pod, corev1.PodLogOptions{Timestamps: true}); !strings.HasPrefix(got, "20") || !strings.Contains(got, "GET") {
		t.Errorf("the log is %q", got)
	}

	// A rollout replaces both, and the slices follow.
	patch := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"slipway.dev/demo:v2"}]}}}}`)
	must.Get(c.client.AppsV1().Deployments(s.ns).Patch(t.Context(), "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{}))(t)
	s.rolledOut("web", 2)
	for _, e := range s.readyEndpoints("web", 2) {
		if response, _, err := s.ask("GET", "http://"+e.at+"/"); err != nil || response.Header.Get("X-Slipway-Version") != "v2" {
			t.Errorf("%s answered %v, %v", e.pod, response, err)
		}
	}

	// Readiness is followed both ways.
	second := s.readyEndpoints("web", 2)
	if _, _, err := s.ask("POST", "http://"+second[0].at+"/unready"); err != nil {
		t.Fatal(err)
	}
	s.eventually("one endpoint that is not ready", func(ctx context.Context) error {
		list, err := s.endpoints(ctx, "web")
		for _, e := range list {
			if e.pod == second[0].pod && !e.ready && !e.terminating {
				return nil
			}
		}
		return fmt.Errorf("%+v, %v", list, err)
	})
	if _, _, err := s.ask("POST", "http://"+second[0].at+"/ready"); err != nil {
		t.Fatal(err)
	}
	s.readyEndpoints("web", 2)

	// The slices go with the Service.
	must.Do(t, c.client.CoreV1().Services(s.ns).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	s.readyEndpoints("web", 0)
}

// rolledOut waits until all replicas of a Deployment are the newest and available.
func (s *scene) rolledOut(name string, n int32) {
	s.t.Helper()
	s.eventually("the rollout", func(ctx context.Context) error {
		d, err := s.client.AppsV1().Deployments(s.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		st := d.Status
		if st.ObservedGeneration != d.Generation || st.UpdatedReplicas != n || st.AvailableReplicas != n || st.Replicas != n {
			return fmt.Errorf("status is %s", st.String())
		}
		return nil
	})
}

func TestClusterCrash(t *testing.T) {
	c := useCluster(t)
	c.startNode(t, t.TempDir())
	s := c.scene(t)
	s.service("web")
	s.create("web", "slipway.dev/demo:v1", withReadiness)
	at := s.readyEndpoints("web", 1)[0].at
	s.ask("POST", "http://"+at+"/exit?code=7")
	pod := s.pod("web", "the restart", func(p *corev1.Pod) bool { return podIsReady(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
	status := pod.Status.ContainerStatuses[0]
	if last := status.LastTerminationState.Terminated; last == nil || last.ExitCode != 7 || last.Reason != "Error" || last.ContainerID == status.ContainerID {
		t.Errorf("lastState is %+v", last)
	}
	if pod.Status.Phase != corev1.PodRunning || pod.Status.ObservedGeneration != pod.Generation || pod.Status.QOSClass != corev1.PodQOSBestEffort {
		t.Errorf("status is %s", pod.Status.String())
	}
	if got := s.log("web", corev1.PodLogOptions{Previous: true}); !strings.Contains(got, "/exit") {
		t.Errorf("the log of the run before is %q", got)
	}
	if again := s.readyEndpoints("web", 1)[0].at; again != at {
		t.Errorf("the Pod moved from %s to %s", at, again)
	}
}

func TestClusterRefusals(t *testing.T) {
	c := useCluster(t)
	c.startNode(t, t.TempDir())
	s := c.scene(t)
	s.create("image", "nginx:1.27", nil)
	s.create("command", "slipway.dev/demo:v1", func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"/bin/sh", "-c", "true"} })
	s.create("config", "container", func(p *corev1.Pod) {
		p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "late"}}}}
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "ADDRESS", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}}
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
	}, "env")
	waiting := func(reason, message string) func(*corev1.Pod) bool {
		return func(p *corev1.Pod) bool {
			if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil {
				return false
			}
			w := p.Status.ContainerStatuses[0].State.Waiting
			return p.Status.Phase == corev1.PodPending && w.Reason == reason && strings.Contains(w.Message, message)
		}
	}
	s.pod("image", "ErrImagePull", waiting("ErrImagePull", "slipway.dev/demo"))
	s.pod("command", "CreateContainerError", waiting("CreateContainerError", "command is not supported"))
	s.pod("config", "CreateContainerConfigError", waiting("CreateContainerConfigError", `configmaps "late" not found`))
	if _, err := c.client.CoreV1().Pods(s.ns).GetLogs("image", &corev1.PodLogOptions{}).Stream(t.Context()); err == nil || !strings.Contains(err.Error(), "waiting to start") {
		t.Errorf("the log of a refused container: %v", err)
	}
	s.eventually("the Event", func(ctx context.Context) error {
		list, err := c.client.CoreV1().Events(s.ns).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=image,reason=Failed"})
		if err != nil || len(list.Items) == 0 {
			return fmt.Errorf("there is none, %v", err)
		}
		return nil
	})

	// What is missing appears, and the container starts.
	must.Get(c.client.CoreV1().ConfigMaps(s.ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Data: map[string]string{"COLOUR": "green"}}, metav1.CreateOptions{}))(t)
	pod := s.pod("config", "its end", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	if got := s.log("config", corev1.PodLogOptions{}); !strings.Contains(got, "\nCOLOUR=green\n") && !strings.HasPrefix(got, "COLOUR=green\n") || !strings.Contains(got, "ADDRESS="+pod.Status.PodIP+"\n") {
		t.Errorf("the container saw %q", got)
	}
	// A Pod that never started goes at once.
	must.Do(t, c.client.CoreV1().Pods(s.ns).Delete(t.Context(), "image", metav1.DeleteOptions{}))
	s.gone("image")
}

func TestClusterGracefulDelete(t *testing.T) {
	c := useCluster(t)
	c.startNode(t, t.TempDir())
	s := c.scene(t)
	s.service("web")
	s.create("web", "slipway.dev/demo:v1", withReadiness)
	at := s.readyEndpoints("web", 1)[0].at
	answered := make(chan error, 1)
	go func() {
		response, body, err := s.ask("GET", "http://"+at+"/sleep?for=3s")
		if err == nil && response.StatusCode != 200 {
			err = fmt.Errorf("%s %s", response.Status, body)
		}
		answered <- err
	}()
	s.eventually("the request to arrive", func(context.Context) error {
		if inFlight(t, at) {
			return nil
		}
		return fmt.Errorf("no connection to %s", at)
	})
	must.Do(t, c.client.CoreV1().Pods(s.ns).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	s.eventually("the endpoint to be terminating", func(ctx context.Context) error {
		list, err := s.endpoints(ctx, "web")
		if err == nil && len(list) == 1 && list[0].terminating && !list[0].ready {
			return nil
		}
		return fmt.Errorf("%+v, %v", list, err)
	})
	pod := s.pod("web", "not ready", func(p *corev1.Pod) bool { return !podIsReady(p) })
	if pod.Status.ContainerStatuses[0].State.Running == nil {
		t.Errorf("the container did not wait for its request: %s", pod.Status.String())
	}
	if err := <-answered; err != nil {
		t.Errorf("the request that ran was cut: %v", err)
	}
	s.gone("web")
	s.readyEndpoints("web", 0)
}

// inFlight reports whether this machine has an established connection to the address.
func inFlight(t *testing.T, address string) bool {
	t.Helper()
	to := netip.MustParseAddrPort(address)
	a := to.Addr().As4()
	want := fmt.Sprintf("%02X%02X%02X%02X:%04X 01", a[3], a[2], a[1], a[0], to.Port())
	data := must.Get(os.ReadFile("/proc/net/tcp"))(t)
	return strings.Contains(string(data), want)
}

func TestClusterForcedDelete(t *testing.T) {
	c := useCluster(t)
	c.startNode(t, t.TempDir())
	s := c.scene(t)
	s.create("slow", "container", grace(1), "deaf")
	s.create("forced", "container", grace(3600), "deaf")
	s.create("shortened", "container", grace(3600), "deaf")
	for _, name := range []string{"slow", "forced", "shortened"} {
		s.pod(name, "the start", podIsReady)
	}
	if n := len(ownProcesses(t)); n < 3 {
		t.Fatalf("%d processes run, want three", n)
	}
	pods := c.client.CoreV1().Pods(s.ns)
	remove := func(name string, o metav1.DeleteOptions) {
		t.Helper()
		must.Do(t, pods.Delete(t.Context(), name, o))
	}
	now, short := int64(0), int64(1)
	remove("slow", metav1.DeleteOptions{})
	s.gone("slow")
	remove("forced", metav1.DeleteOptions{GracePeriodSeconds: &now})
	remove("shortened", metav1.DeleteOptions{})
	remove("shortened", metav1.DeleteOptions{GracePeriodSeconds: &short})
	s.gone("shortened")
	s.eventually("the processes to end", func(context.Context) error {
		for _, pid := range ownProcesses(t) {
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(line), "deaf") {
				return fmt.Errorf("process %d is left", pid)
			}
		}
		return nil
	})
}

func TestClusterJobWithInitAndSidecar(t *testing.T) {
	c := useCluster(t)
	c.startNode(t, t.TempDir())
	s := c.scene(t)
	always := corev1.ContainerRestartPolicyAlways
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "job"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			InitContainers: []corev1.Container{
				{Name: "setup", Image: "container", Args: []string{"print", "set up"}},
				{Name: "helper", Image: "container", Args: []string{"serve"}, RestartPolicy: &always, StartupProbe: &corev1.Probe{
					PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}}},
			},
			Containers: []corev1.Container{{Name: "work", Image: "container", Args: []string{"print", "worked"}}},
		}}},
	}
	must.Get(c.client.BatchV1().Jobs(s.ns).Create(t.Context(), job, metav1.CreateOptions{}))(t)
	s.eventually("the job", func(ctx context.Context) error {
		got, err := c.client.BatchV1().Jobs(s.ns).Get(ctx, "job", metav1.GetOptions{})
		if err != nil || got.Status.Succeeded != 1 {
			return fmt.Errorf("%v, %v", got.Status.String(), err)
		}
		return nil
	})
	list, err := c.client.CoreV1().Pods(s.ns).List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=job"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d Pods, %v", len(list.Items), err)
	}
	pod := &list.Items[0]
	for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if status.State.Terminated == nil || status.State.Terminated.ExitCode != 0 {
			t.Errorf("container %s is %+v", status.Name, status.State)
		}
	}
	for container, want := range map[string]string{"setup": "set up\n", "helper": "serving\nasked to end\n", "work": "worked\n"} {
		if got := s.log(pod.Name, corev1.PodLogOptions{Container: container}); got != want {
			t.Errorf("the log of %s is %q, want %q", container, got, want)
		}
	}

	// An init container that fails for good fails the Pod, and nothing after it starts.
	s.create("broken", "container", func(p *corev1.Pod) {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.InitContainers = []corev1.Container{{Name: "setup", Image: "container", Args: []string{"exit", "5"}}}
	}, "wait")
	pod = s.pod("broken", "its failure", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if pod.Status.ContainerStatuses[0].State.Waiting == nil || pod.Status.InitContainerStatuses[0].State.Terminated.ExitCode != 5 {
		t.Errorf("status is %s", pod.Status.String())
	}
	// A Pod that is active for too long is ended.
	limit := int64(1)
	s.create("late", "container", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &limit }, "wait")
	s.pod("late", "its deadline", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed && p.Status.Reason == "DeadlineExceeded"
	})
}

func TestClusterFollowLogs(t *testing.T) {
	c := useCluster(t)
	c.startNode(t, t.TempDir())
	s := c.scene(t)
	s.create("talk", "container", nil, "wait")
	s.pod("talk", "the start", podIsReady)
	stream := must.Get(c.client.CoreV1().Pods(s.ns).GetLogs("talk", &corev1.PodLogOptions{Follow: true}).Stream(t.Context()))(t)
	defer stream.Close()
	lines := bufio.NewReader(stream)
	if line, err := lines.ReadString('\n'); line != "waiting\n" {
		t.Fatalf("the first line is %q, %v", line, err)
	}
	must.Do(t, c.client.CoreV1().Pods(s.ns).Delete(t.Context(), "talk", metav1.DeleteOptions{}))
	if rest, err := io.ReadAll(lines); err != nil || string(rest) != "asked to end\n" {
		t.Errorf("the rest is %q, %v", rest, err)
	}
}
