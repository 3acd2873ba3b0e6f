package health

import (
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// DeadlineAnnotation is how long an object may be Progressing, such as 10m;
// none is without limit.
const DeadlineAnnotation = "slipway.dev/progress-deadline"

const (
	// maxDeadline bounds the annotation.
	maxDeadline = 30 * 24 * time.Hour
	// maxStartTime bounds the time for all Pods of one object.
	maxStartTime = 2 * time.Hour
)

// Deadline returns how long an object may be Progressing: its annotation, or
// the default of its kind. It is false without a limit. An invalid annotation
// is ignored here; WithDeadline reports it.
func Deadline(live *unstructured.Unstructured) (time.Duration, bool) {
	if live == nil || live.Object == nil {
		return 0, false
	}
	return read(live).deadline()
}

// WithDeadline returns the status of an object that has been so since a time:
// Progressing beyond its deadline is Degraded.
func WithDeadline(status *Status, live *unstructured.Unstructured, since, now time.Time) *Status {
	if live == nil || live.Object == nil {
		return status
	}
	return read(live).expire(status, since, now)
}

// expire applies the deadline to a status.
func (o *object) expire(status *Status, since, now time.Time) *Status {
	if status == nil || status.Code != v1alpha1.Progressing || since.IsZero() {
		return status
	}
	limit, limited := o.deadline()
	// The message contains the limit and not the elapsed time, so that it does
	// not change with every comparison.
	if !limited || now.Sub(since) < limit {
		return status
	}
	text := fmt.Sprintf("it takes longer than %s", limit)
	if status.Message != "" {
		text += ": " + status.Message
	}
	if annotation := o.metadata.group("annotations").text(DeadlineAnnotation); annotation != "" {
		if _, _, err := parseDeadline(annotation); err != nil {
			text += "; " + err.Error()
		}
	}
	return degraded("%s", text)
}

// deadline is the annotation, or the default of the kind.
func (o *object) deadline() (time.Duration, bool) {
	if text := o.metadata.group("annotations").text(DeadlineAnnotation); text != "" {
		if limit, limited, err := parseDeadline(text); err == nil {
			return limit, limited
		}
	}
	return o.defaultDeadline()
}

// parseDeadline parses the annotation.
func parseDeadline(text string) (limit time.Duration, limited bool, err error) {
	if text == "none" {
		return 0, false, nil
	}
	limit, err = time.ParseDuration(text)
	if err != nil || limit < time.Second || limit > maxDeadline {
		return 0, false, fmt.Errorf("the annotation %s is %s: write a time from 1s to 720h, such as 10m, or none",
			DeadlineAnnotation, strconv.Quote(shortened(text)))
	}
	return limit, true, nil
}

// defaultDeadline is long enough for every normal case. Objects that end by
// themselves have no limit: a Deployment and a Rollout have their own deadline,
// which restarts with every Pod; a Job runs as long as its spec allows; and an
// Application waits for its objects, which have theirs.
func (o *object) defaultDeadline() (time.Duration, bool) {
	const short, normal, long = 5 * time.Minute, 10 * time.Minute, time.Hour
	deleted := o.metadata.has("deletionTimestamp")
	switch o.kind.Group {
	case "apps", "extensions":
		switch o.kind.Kind {
		case "Deployment":
			return normal, deleted
		// Pods start one after the other, so that the limit grows with their
		// number.
		case "StatefulSet":
			// Its Pods start one after the other.
			return startTime(o.spec.number("replicas"), normal), true
		case "DaemonSet":
			return startTime(o.status.number("desiredNumberScheduled"), 2*time.Minute), true
		}
		return normal, true
	case "batch", v1alpha1.Group:
		// A Rollout without a status has no controller that could see to its
		// deadline.
		return normal, deleted || o.isRollout() && o.status == nil
	case "":
		return normal, deleted || o.kind.Kind != "Pod" || o.spec.text("restartPolicy") == "Always"
	// Their controllers respond within seconds.
	case "networking.k8s.io", "autoscaling", "policy":
		return normal, true
	case "apiregistration.k8s.io", "apiextensions.k8s.io":
		return short, true
	}
	return long, true
}

// startTime is the time for Pods that start one after the other.
func startTime(pods int64, each time.Duration) time.Duration {
	pods = max(1, min(pods, int64(maxStartTime/time.Minute)))
	return min(maxStartTime, max(10*time.Minute, time.Duration(pods)*each))
}
