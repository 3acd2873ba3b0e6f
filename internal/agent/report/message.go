package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// Limits of one Application's event, so that an unusual one cannot block the
// others.
const (
	maxText       = 4 << 10
	maxWord       = 512
	maxLabels     = 64
	maxConditions = 20
	maxSources    = 20
)

// Message converts an Application for the platform. Annotations, manifests,
// parameters and values are not part of it, and the rest is redacted. Every
// text is bounded, so that one Application cannot fill a batch.
func Message(app *v1alpha1.Application, runtime string, seen time.Time) *platformv1.Application {
	status := &app.Status
	message := &platformv1.Application{
		Runtime: runtime, Namespace: app.Namespace, Name: app.Name, Uid: string(app.UID),
		Project: boundedWord(app.Spec.ProjectName()), Cluster: cluster(app.Spec.Destination),
		DestinationNamespace: boundedWord(app.Spec.Destination.Namespace),
		Revision:             boundedWord(revision(status.Sync.Revision, status.Sync.Revisions)),
		Sync:                 orUnknown(string(status.Sync.Status)), Health: orUnknown(string(status.Health.Status)),
		HealthMessage: boundedText(status.Health.Message), Labels: labels(app.Labels), Conditions: conditions(status.Conditions),
		Resources: int32(min(len(status.Resources), 1<<30)), SeenAt: timestamppb.New(seen), Owner: owner(app),
		Syncs: syncsOf(app),
	}
	sources := app.Spec.AllSources()
	for i := range sources {
		source := &sources[i]
		if i < maxSources {
			message.RepoUrls = append(message.RepoUrls, boundedWord(redactAddress(source.RepoURL)))
		}
		if i == 0 {
			message.Path, message.TargetRevision = boundedWord(source.Path), boundedWord(source.TargetRevision)
			if source.Chart != "" {
				message.Path, message.Chart = boundedWord(source.Chart), true
			}
		}
	}
	if held := status.Held; held != nil {
		message.Held, message.HeldAt = boundedText(cmp.Or(held.Message, held.Reason, "held")), timestamppb.New(held.HeldAt.Time)
	}
	if state := status.OperationState; state != nil {
		message.OperationPhase, message.OperationMessage = boundedWord(string(state.Phase)), boundedText(state.Message)
		if state.FinishedAt != nil {
			message.OperationFinishedAt = timestamppb.New(state.FinishedAt.Time)
		}
	}
	return message
}

// messageSize is the encoded size of an event.
func messageSize(event *platformv1.ReportEvent) int { return proto.Size(event) }

// orUnknown is the default of an empty status.
func orUnknown(code string) string {
	if code == "" {
		return "Unknown"
	}
	return boundedWord(code)
}

// cluster returns the name or the address of a destination.
func cluster(to v1alpha1.ApplicationDestination) string {
	if to.Name != "" {
		return boundedWord(to.Name)
	}
	return boundedWord(redactAddress(to.Server))
}

// revision joins the revisions of several sources.
func revision(one string, several []string) string {
	if len(several) > 0 {
		return strings.Join(several, ",")
	}
	return one
}

// owner returns the ApplicationSet or Application that created it.
func owner(app *v1alpha1.Application) string {
	at := slices.IndexFunc(app.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Controller != nil && *o.Controller })
	if at < 0 {
		return ""
	}
	return boundedWord(app.OwnerReferences[at].Kind + "/" + app.OwnerReferences[at].Name)
}

// labels returns a bounded number of labels, in a fixed order.
func labels(given map[string]string) map[string]string {
	if len(given) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(given))
	reported := map[string]string{}
	for _, name := range names[:min(len(names), maxLabels)] {
		reported[name] = boundedWord(redact(given[name]))
	}
	return reported
}

// conditions converts a bounded number of conditions to text.
func conditions(given []v1alpha1.ApplicationCondition) []string {
	var reported []string
	for _, condition := range given[:min(len(given), maxConditions)] {
		reported = append(reported, boundedText(condition.Type+": "+condition.Message))
	}
	return reported
}

// boundedText and boundedWord redact and bound a text.
func boundedText(given string) string { return cut(redact(given), maxText) }
func boundedWord(given string) string { return cut(redact(given), maxWord) }

// cut shortens a text without splitting a character.
func cut(given string, limit int) string {
	given = strings.ToValidUTF8(given, "?")
	if len(given) <= limit {
		return given
	}
	const more = "…"
	end := limit - len(more)
	for end > 0 && !utf8.RuneStart(given[end]) {
		end--
	}
	return given[:end] + more
}
