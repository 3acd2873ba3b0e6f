package node

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The reasons of a container that waits, as the kubelet names them.
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

// refusal says why a container is not started. It ends in the container's status and in an Event.
type refusal struct {
	reason  string
	message string
	// passing is a refusal that may go away by itself, like a ConfigMap that is not there yet.
	passing bool
}

// refuse looks for what the node will not do for this container. Whatever a manifest could use to run something of its
// own is refused, and so are the probes, hooks, volumes and ports that a workload would count on in vain.
func refuse(pod *corev1.Pod, c *corev1.Container) *refusal {
	checks := []func(*corev1.Pod, *corev1.Container) string{refuseCommand, refuseProbes, refuseHooks, refuseVolumes, refusePolicy}
	for _, check := range checks {
		if message := check(pod, c); message != "" {
			return &refusal{reason: reasonCreateError, message: message}
		}
	}
	return nil
}

func refuseCommand(_ *corev1.Pod, c *corev1.Container) string {
	if len(c.Command) > 0 {
		return "command " + unsupportedByThisNode + "; remove command, or use args"
	}
	return ""
}

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

// loaderVariable names what changes how this machine loads programs: with it a manifest could bring its own code.
func loaderVariable(name string) bool {
	return strings.HasPrefix(name, "LD_") || name == "GLIBC_TUNABLES"
}

// refuseVolumes lets pass what a built-in image does without; a volume that carries data it must not lose is refused.
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
	for _, device := range c.VolumeDevices {
		return fmt.Sprintf("volumeDevices %q %s", device.Name, unsupportedByThisNode)
	}
	return ""
}

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
