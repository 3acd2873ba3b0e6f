package node

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func preStop(h corev1.LifecycleHandler) func(*corev1.Pod, *corev1.Container) {
	return func(_ *corev1.Pod, c *corev1.Container) { c.Lifecycle = &corev1.Lifecycle{PreStop: &h} }
}

func volume(v corev1.VolumeSource) func(*corev1.Pod, *corev1.Container) {
	return func(p *corev1.Pod, c *corev1.Container) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: v}}
		c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	}
}

func stopSignal(s corev1.Signal) func(*corev1.Pod, *corev1.Container) {
	return func(_ *corev1.Pod, c *corev1.Container) { c.Lifecycle = &corev1.Lifecycle{StopSignal: &s} }
}

func TestRefuse(t *testing.T) {
	exec := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	get := &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)}
	elsewhere := &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80), Host: "192.0.2.1"}
	for _, tt := range []struct {
		name string
		edit func(*corev1.Pod, *corev1.Container)
		want string // a part of the message; empty when nothing is refused
	}{
		{"nothing", func(*corev1.Pod, *corev1.Container) {}, ""},
		{"args", func(_ *corev1.Pod, c *corev1.Container) { c.Args = []string{"sh", "-c", "id"} }, ""},
		{"command", func(_ *corev1.Pod, c *corev1.Container) { c.Command = []string{"sh"} }, "command is not supported"},
		{"exec startup", func(_ *corev1.Pod, c *corev1.Container) { c.StartupProbe = exec }, "startupProbe.exec"},
		{"exec readiness", func(_ *corev1.Pod, c *corev1.Container) { c.ReadinessProbe = exec }, "readinessProbe.exec"},
		{"exec liveness", func(_ *corev1.Pod, c *corev1.Container) { c.LivenessProbe = exec }, "livenessProbe.exec"},
		{"grpc", func(_ *corev1.Pod, c *corev1.Container) {
			c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 1}}}
		}, "livenessProbe.grpc"},
		{"http probe", func(_ *corev1.Pod, c *corev1.Container) {
			c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get}}
		}, ""},
		{"probe elsewhere", func(_ *corev1.Pod, c *corev1.Container) {
			c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: elsewhere}}
		}, "livenessProbe names a host"},
		{"tcp elsewhere", func(_ *corev1.Pod, c *corev1.Container) {
			c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: "192.0.2.1"}}}
		}, "readinessProbe names a host"},
		{"preStop exec", preStop(corev1.LifecycleHandler{Exec: &corev1.ExecAction{}}), "lifecycle.preStop"},
		{"preStop tcp", preStop(corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{}}), "lifecycle.preStop"},
		{"preStop sleep", preStop(corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}), ""},
		{"preStop http", preStop(corev1.LifecycleHandler{HTTPGet: get}), ""},
		{"preStop elsewhere", preStop(corev1.LifecycleHandler{HTTPGet: elsewhere}), "names a host"},
		{"postStart", func(_ *corev1.Pod, c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{HTTPGet: get}}
		}, "lifecycle.postStart"},
		{"stop signal", stopSignal(corev1.SIGQUIT), "stopSignal SIGQUIT"},
		{"SIGTERM", stopSignal(corev1.SIGTERM), ""},
		{"emptyDir", volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), ""},
		{"token", volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}), ""},
		{"configMap", volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}), ""},
		{"secret", volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}), ""},
		{"downwardAPI", volume(corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}), ""},
		{"hostPath", volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}), `volume "v"`},
		{"claim", volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}), `volume "v"`},
		{"device", func(_ *corev1.Pod, c *corev1.Container) { c.VolumeDevices = []corev1.VolumeDevice{{Name: "disk"}} }, `volumeDevices "disk"`},
		{"hostPort", func(_ *corev1.Pod, c *corev1.Container) {
			c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		}, "hostPort 80"},
		{"hostNetwork", func(p *corev1.Pod, c *corev1.Container) {
			p.Spec.HostNetwork = true
			c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		}, ""},
		{"restart all", func(_ *corev1.Pod, c *corev1.Container) {
			c.RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
		}, "RestartAllContainers"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := testPod()
			tt.edit(pod, &pod.Spec.Containers[0])
			got := refuse(pod, &pod.Spec.Containers[0])
			switch {
			case tt.want == "" && got != nil:
				t.Errorf("refused: %s", got.message)
			case tt.want != "" && (got == nil || got.reason != reasonCreateError || !strings.Contains(got.message, tt.want)):
				t.Errorf("refusal is %+v, want one that says %q", got, tt.want)
			}
		})
	}
}
