package report

import (
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

// What is told of one Application is bounded, so that one that is odd does not
// keep the others from being told.
const (
	longestText    = 4 << 10
	longestWord    = 512
	mostLabels     = 64
	mostConditions = 20
	mostSources    = 20
)

// Message is what the platform is told of an Application. Annotations, manifests,
// parameters and values are not part of it, and the rest is cleaned.
func Message(app *v1alpha1.Application, runtime string, seen time.Time) *platformv1.Application {
	status := &app.Status
	told := &platformv1.Application{
		Runtime: runtime, Namespace: app.Namespace, Name: app.Name, Uid: string(app.UID),
		Project: word(app.Spec.ProjectName()), Cluster: cluster(app.Spec.Destination),
		DestinationNamespace: word(app.Spec.Destination.Namespace),
		Revision:             word(revision(status.Sync.Revision, status.Sync.Revisions)),
		Sync:                 orUnknown(string(status.Sync.Status)), Health: orUnknown(string(status.Health.Status)),
		HealthMessage: text(status.Health.Message), Labels: labels(app.Labels), Conditions: conditions(status.Conditions),
		Resources: int32(min(len(status.Resources), 1<<30)), SeenAt: timestamppb.New(seen), Owner: owner(app),
	}
	sources := app.Spec.AllSources()
	for i := range sources {
		source := &sources[i]
		if i < mostSources {
			told.RepoUrls = append(told.RepoUrls, word(cleanAddress(source.RepoURL)))
		}
		if i == 0 {
			told.Path, told.TargetRevision = word(source.Path), word(source.TargetRevision)
			if source.Chart != "" {
				told.Path = word(source.Chart)
			}
		}
	}
	if state := status.OperationState; state != nil {
		told.OperationPhase, told.OperationMessage = word(string(state.Phase)), text(state.Message)
		if state.FinishedAt != nil {
			told.OperationFinishedAt = timestamppb.New(state.FinishedAt.Time)
		}
	}
	return told
}

func messageSize(event *platformv1.ReportEvent) int { return proto.Size(event) }

func orUnknown(code string) string {
	if code == "" {
		return "Unknown"
	}
	return word(code)
}

func cluster(to v1alpha1.ApplicationDestination) string {
	if to.Name != "" {
		return word(to.Name)
	}
	return word(cleanAddress(to.Server))
}

func revision(one string, several []string) string {
	if len(several) > 0 {
		return strings.Join(several, ",")
	}
	return one
}

// owner is the ApplicationSet or Application that made it.
func owner(app *v1alpha1.Application) string {
	at := slices.IndexFunc(app.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Controller != nil && *o.Controller })
	if at < 0 {
		return ""
	}
	return word(app.OwnerReferences[at].Kind + "/" + app.OwnerReferences[at].Name)
}

func labels(given map[string]string) map[string]string {
	if len(given) == 0 {
		return nil
	}
	names := make([]string, 0, len(given))
	for name := range given {
		names = append(names, name)
	}
	slices.Sort(names)
	told := map[string]string{}
	for _, name := range names[:min(len(names), mostLabels)] {
		told[name] = word(clean(given[name]))
	}
	return told
}

func conditions(given []v1alpha1.ApplicationCondition) []string {
	var told []string
	for _, condition := range given[:min(len(given), mostConditions)] {
		told = append(told, text(condition.Type+": "+condition.Message))
	}
	return told
}

// text and word are cleaned and bounded.
func text(given string) string { return cut(clean(given), longestText) }
func word(given string) string { return cut(clean(given), longestWord) }

// cut shortens a text, never within a character.
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
