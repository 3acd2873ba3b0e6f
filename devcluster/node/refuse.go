package node

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The reasons of container states and Pod conditions, as the kubelet names
// them: users and tools such as kubectl wait for these strings.
const (
	reasonCreating        = "ContainerCreating"
	reasonInitializing    = "PodInitializing"
	reasonImage           = "ErrImagePull"
	reasonCreateError     = "CreateContainerError"
	reasonConfigError     = "CreateContainerConfigError"
	reasonStartError      = "RunContainerError"
	reasonBackOff         = "CrashLoopBackOff"
	reasonCompleted       = "Completed"
	reasonError           = "Error"
	reasonUnknown         = "ContainerStatusUnknown"
	reasonDeadline        = "DeadlineExceeded"
	reasonNotReady        = "ContainersNotReady"
	reasonNotInitialized  = "ContainersNotInitialized"
	reasonGates           = "ReadinessGatesNotReady"
	reasonPodCompleted    = "PodCompleted"
	reasonPodFailed       = "PodFailed"
	containerIDScheme     = "slipway-process://"
	unsupportedByThisNode = "is not supported by the process node, which runs only built-in images as local processes"
)

// refusal is the reason that a container is not started. It is reported in the
// container's status and in an Event.
type refusal struct {
	reason  string
	message string
	// passing marks a refusal that may resolve without a change of the Pod,
	// like a ConfigMap that does not exist yet; the container retries it.
	// Others wait for a new image.
	passing bool
}

// refuse returns the first unsupported field of a container, or nil. It refuses
// every field with which a manifest could execute code of its own, and the
// probes, hooks, volumes and ports that a workload would rely on without
// effect.
func refuse(pod *corev1.Pod, c *corev1.Container) *refusal {
	checks := []func(*corev1.Pod, *corev1.Container) string{refuseCommand, refuseProbes, refuseHooks, refuseVolumes, refusePolicy}
	for _, check := range checks {
		if message := check(pod, c); message != "" {
			return &refusal{reason: reasonCreateError, message: message}
		}
	}
	return nil
}

// refuseCommand refuses command, which would name a program of this machine.
// args are allowed: they only reach the built-in image.
func refuseCommand(_ *corev1.Pod, c *corev1.Container) string {
	if len(c.Command) > 0 {
		return "command " + unsupportedByThisNode + "; remove command, or use args"
	}
	return ""
}

// refuseProbes allows HTTP and TCP probes of the Pod itself. A probe with a
// host would let a manifest send requests from this machine to any address.
func refuseProbes(_ *corev1.Pod, c *corev1.Container) string {
	probes := []struct {
		field string
		probe *corev1.Probe
	}{{"startupProbe", c.StartupProbe}, {"readinessProbe", c.ReadinessProbe}, {"livenessProbe", c.LivenessProbe}}
	for _, p := range probes {
		switch {
		case p.probe == nil:
		case p.probe.Exec != nil:
			return p.field + ".exec " + unsupportedByThisNode + "; use httpGet or tcpSocket"
		case p.probe.GRPC != nil:
			return p.field + ".grpc " + unsupportedByThisNode + "; use httpGet or tcpSocket"
		case p.probe.HTTPGet != nil && p.probe.HTTPGet.Host != "", p.probe.TCPSocket != nil && p.probe.TCPSocket.Host != "":
			return p.field + " names a host; the process node probes only the Pod itself, so remove host"
		}
	}
	return ""
}

// refuseHooks allows preStop hooks that sleep or send an HTTP request to the
// Pod. SIGTERM is the only stop signal: the built-in images drain on it.
func refuseHooks(_ *corev1.Pod, c *corev1.Container) string {
	if c.Lifecycle == nil {
		return ""
	}
	if c.Lifecycle.PostStart != nil {
		return "lifecycle.postStart " + unsupportedByThisNode
	}
	if s := c.Lifecycle.StopSignal; s != nil && *s != corev1.SIGTERM {
		return fmt.Sprintf("lifecycle.stopSignal %s is not supported by the process node, which stops with SIGTERM", *s)
	}
	stop := c.Lifecycle.PreStop
	if stop == nil || stop.Sleep != nil {
		return ""
	}
	if stop.HTTPGet == nil {
		return "lifecycle.preStop of this kind " + unsupportedByThisNode + "; use httpGet or sleep"
	}
	if stop.HTTPGet.Host != "" {
		return "lifecycle.preStop names a host; the process node calls only the Pod itself, so remove host"
	}
	return ""
}

// loaderVariable reports whether a variable changes how this machine loads
// programs: with LD_PRELOAD a manifest could inject its own code.
func loaderVariable(name string) bool {
	return strings.HasPrefix(name, "LD_") || name == "GLIBC_TUNABLES"
}

// refuseVolumes allows the volumes that a built-in image does not need, such as
// the service account token that every Pod has; they are not mounted. A volume
// with data that must persist is refused.
func refuseVolumes(pod *corev1.Pod, c *corev1.Container) string {
	for _, mount := range c.VolumeMounts {
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i]
			harmless := v.EmptyDir != nil || v.Projected != nil || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil
			if v.Name == mount.Name && !harmless {
				return fmt.Sprintf("volume %q %s; use emptyDir, configMap, secret, projected or downwardAPI", v.Name, unsupportedByThisNode)
			}
		}
	}
	// The first device is enough for the message.
	for _, device := range c.VolumeDevices {
		return fmt.Sprintf("volumeDevices %q %s", device.Name, unsupportedByThisNode)
	}
	return ""
}

// refusePolicy refuses restart rules with actions other than Restart, and host
// ports, which only a Pod in the host network could bind.
func refusePolicy(pod *corev1.Pod, c *corev1.Container) string {
	for _, rule := range c.RestartPolicyRules {
		if rule.Action != corev1.ContainerRestartRuleActionRestart {
			return fmt.Sprintf("restartPolicyRules action %s is not supported by the process node; use Restart", rule.Action)
		}
	}
	if pod.Spec.HostNetwork {
		return ""
	}
	for _, p := range c.Ports {
		if p.HostPort != 0 {
			return fmt.Sprintf("hostPort %d is not supported by the process node; use a Service and an Ingress", p.HostPort)
		}
	}
	return ""
}
