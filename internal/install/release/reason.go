package release

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// mostPods and mostEvents bound what is read to find a reason.
	mostPods   = 50
	mostEvents = 500
	// longestReason bounds one reason.
	longestReason = 600
)

// cutLine returns a text on one line of bounded length.
func cutLine(text string) string {
	line := strings.Join(strings.Fields(text), " ")
	if runes := []rune(line); len(runes) > longestReason {
		return string(runes[:longestReason]) + "…"
	}
	return line
}

// reason explains why the Pods of a workload are missing or not ready: their
// conditions and containers first, then Events.
func (c *Client) reason(ctx context.Context, id ID, selector *metav1.LabelSelector) string {
	pods, err := c.cluster.Client.CoreV1().Pods(id.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(selector), Limit: mostPods})
	if err != nil {
		return ""
	}
	// The newest Pods are those of the new revision.
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	// weak is the first reason without details. A strong one of any other Pod
	// wins over it.
	weak := ""
	for i := range pods.Items {
		pod := &pods.Items[i]
		why, strong := podReason(pod)
		if why == "" {
			continue
		}
		why = "Pod " + pod.Name + " " + why
		if strong {
			return cutLine(why)
		}
		if weak == "" {
			if event := c.lastWarning(ctx, id.Namespace, pod.Name); event != "" {
				why += ": " + event
			}
			weak = cutLine(why)
		}
	}
	if weak != "" {
		return weak
	}
	// Without Pods the Events of the controller have the reason, such as a
	// quota or an admission webhook.
	if len(pods.Items) == 0 {
		if event := c.lastWarning(ctx, id.Namespace, id.Name); event != "" {
			return cutLine("there are no Pods: " + event)
		}
	}
	return ""
}

// podReason explains why a Pod is not ready; strong means that Events add
// nothing.
func podReason(pod *corev1.Pod) (why string, strong bool) {
	// Containers come first, because their reasons are the most specific.
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if why := containerReason(status); why != "" {
			return why, true
		}
	}
	if pod.Status.Phase == corev1.PodFailed {
		return strings.TrimSpace("failed: " + pod.Status.Reason + " " + pod.Status.Message), pod.Status.Message != ""
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return "cannot be scheduled: " + condition.Message, true
		}
	}
	// A Pod of a Job that has succeeded is not missing.
	if pod.Status.Phase == corev1.PodSucceeded {
		return "", false
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return "", false
		}
	}
	if pod.Status.Phase == corev1.PodRunning {
		return "runs and is not ready", false
	}
	return "is starting", false
}

// containerReason explains what a container waits for or ended with.
func containerReason(status corev1.ContainerStatus) string {
	// These two reasons are normal steps of a start.
	if waiting := status.State.Waiting; waiting != nil && waiting.Reason != "" && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing" {
		text := strings.TrimSuffix(waiting.Reason+": "+waiting.Message, ": ")
		// In a crash loop the last termination has the message.
		if last := status.LastTerminationState.Terminated; last != nil && last.Message != "" {
			text += ": " + last.Message
		}
		return "has its container " + status.Name + " in " + text
	}
	// A container that was restarted has its exit code in the last state.
	for _, ended := range []*corev1.ContainerStateTerminated{status.State.Terminated, status.LastTerminationState.Terminated} {
		if ended != nil && ended.ExitCode != 0 && !status.Ready {
			text := fmt.Sprintf("has its container %s ended with %d", status.Name, ended.ExitCode)
			if ended.Message != "" {
				text += ": " + ended.Message
			}
			return text
		}
	}
	return ""
}

// lastWarning returns the newest warning Event of an object, or of one that it
// created, whose name starts with its own.
func (c *Client) lastWarning(ctx context.Context, namespace, name string) string {
	// The API server filters by type, because only warnings explain a failure.
	events, err := c.cluster.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning, Limit: mostEvents})
	if err != nil {
		return ""
	}
	var last *corev1.Event
	for i := range events.Items {
		event := &events.Items[i]
		about := event.InvolvedObject.Name
		// ReplicaSets and Pods have the name of their owner as a prefix.
		if about != name && !strings.HasPrefix(about, name+"-") {
			continue
		}
		if last == nil || seenAt(event).After(seenAt(last).Time) {
			last = event
		}
	}
	if last == nil {
		return ""
	}
	return last.Reason + ": " + last.Message
}

// seenAt returns the time of an Event in either API.
func seenAt(event *corev1.Event) metav1.Time {
	switch {
	case event.Series != nil:
		return metav1.Time{Time: event.Series.LastObservedTime.Time}
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp
	case !event.EventTime.IsZero():
		return metav1.Time{Time: event.EventTime.Time}
	}
	return event.CreationTimestamp
}
