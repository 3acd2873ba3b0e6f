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

// NoteLimit is the most bytes of the note of an Event, as the API server enforces
// it.
const NoteLimit = 1024

// objectNameLimit is the most bytes of the name of an object.
const objectNameLimit = 253

// Notice is the content of an Event.
type Notice struct {
	// Regarding is the object. Without its UID kubectl describe does not show the
	// Event.
	Regarding corev1.ObjectReference
	// Warning makes the type Warning instead of Normal.
	Warning bool
	// Reason is why, in one CamelCase word, such as RefusedInvalid.
	Reason string
	// Action is what was being done, in one word.
	Action string
	// Note is the text. It is truncated to NoteLimit.
	Note string
	// Times is how often it was written, this time included.
	Times int
}

// Reporter is the source of an Event.
type Reporter struct {
	// Controller is the program, such as slipway.dev/edge.
	Controller string
	// Instance is the replica.
	Instance string
}

// Announce writes a Notice as an Event. The name of the Event is derived from its
// content, so the same notice about the same object is one Event with a count,
// also when the leader changes.
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
		// The API server requires this namespace for cluster-scoped objects.
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

// name is derived from the object and the content. Length prefixes keep different
// parts from joining to the same text.
func (n *Notice) name(kind string) string {
	sum := sha256.New()
	r := n.Regarding
	for _, part := range []string{r.APIVersion, r.Kind, r.Namespace, r.Name, string(r.UID), kind, n.Reason, n.Action, n.Note} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	suffix := "." + hex.EncodeToString(sum.Sum(nil)[:8])
	start := r.Name[:min(len(r.Name), objectNameLimit-len(suffix))]
	return strings.TrimRight(start, ".-") + suffix
}

// cutText truncates a text to a number of bytes, never within a character.
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
