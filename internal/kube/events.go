package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NoteLimit is how many bytes the text of an Event may have.
const NoteLimit = 1024

// objectNameLimit is how long the name of an object may be.
const objectNameLimit = 253

// Notice is something to tell whoever looks at an object.
type Notice struct {
	// Regarding is the object. Without its UID the Event is found by name, and
	// kubectl describe does not show it.
	Regarding corev1.ObjectReference
	// Warning marks something that needs somebody's attention.
	Warning bool
	// Reason says what happened in one word, such as RefusedInvalid.
	Reason string
	// Action says in one word what was being done.
	Action string
	// Note is the text. What is longer than NoteLimit is cut.
	Note string
	// Times is how often it was told, this time included.
	Times int
}

// Reporter says who tells a Notice.
type Reporter struct {
	// Controller is the program, such as slipway.dev/edge.
	Controller string
	// Instance is the replica.
	Instance string
}

// Announce makes a Notice an Event. The same notice about the same object is one
// Event, whoever tells it: when it is there already it is counted on, so that
// replicas that take turns do not repeat each other.
//
// It needs the verbs create and patch on events of events.k8s.io.
func (c *Cluster) Announce(ctx context.Context, reporter Reporter, notice Notice) error {
	event := notice.event(reporter)
	events := c.Client.EventsV1().Events(event.Namespace)
	_, err := events.Create(ctx, event, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var again []byte
		again, err = json.Marshal(map[string]any{"series": eventsv1.EventSeries{
			Count: int32(max(notice.Times, 2)), LastObservedTime: metav1.NowMicro(),
		}})
		if err == nil {
			_, err = events.Patch(ctx, event.Name, types.MergePatchType, again, metav1.PatchOptions{})
		}
	}
	if err != nil {
		return fmt.Errorf("write an Event about %s %s/%s: %w", notice.Regarding.Kind, notice.Regarding.Namespace, notice.Regarding.Name, err)
	}
	return nil
}

func (n *Notice) event(reporter Reporter) *eventsv1.Event {
	kind := corev1.EventTypeNormal
	if n.Warning {
		kind = corev1.EventTypeWarning
	}
	namespace := n.Regarding.Namespace
	if namespace == "" {
		// Where the API server wants the Events of what has no namespace.
		namespace = metav1.NamespaceDefault
	}
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, Name: n.name(kind)},
		EventTime:           metav1.NewMicroTime(time.Now()),
		ReportingController: reporter.Controller,
		ReportingInstance:   cutText(reporter.Instance, 128),
		Regarding:           n.Regarding,
		Type:                kind,
		Reason:              n.Reason,
		Action:              n.Action,
		Note:                cutText(n.Note, NoteLimit),
	}
}

// name follows from what is told about what.
func (n *Notice) name(kind string) string {
	told := sha256.New()
	r := n.Regarding
	for _, part := range []string{r.APIVersion, r.Kind, r.Namespace, r.Name, string(r.UID), kind, n.Reason, n.Action, n.Note} {
		fmt.Fprintf(told, "%d:%s", len(part), part)
	}
	suffix := "." + hex.EncodeToString(told.Sum(nil)[:8])
	start := r.Name[:min(len(r.Name), objectNameLimit-len(suffix))]
	return strings.TrimRight(start, ".-") + suffix
}

// cutText shortens a text to a number of bytes, and never within a character.
func cutText(text string, limit int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= limit {
		return text
	}
	const more = "…"
	end := limit - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
