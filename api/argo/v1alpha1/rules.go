package v1alpha1

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // time zones of sync windows are the same on every machine

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/refusal"
)

// specRules checks fields that depend on each other.
func (d *decoder) specRules(spec *ApplicationSpec, place string) {
	d.resolveSources(spec, place)
	if spec.Source != nil {
		d.sourceRules(spec.Source, declare.Join(place, "source"), false)
	}
	// Value files refer to sources by name, which must be unique.
	refs := map[string]bool{}
	for i := range spec.Sources {
		source := &spec.Sources[i]
		at := fmt.Sprintf("%s[%d]", declare.Join(place, "sources"), i)
		d.sourceRules(source, at, true)
		if source.Ref != "" && refs[source.Ref] {
			d.Invalid(declare.Join(at, "ref"), "another source is called %s as well: give each its own name", declare.Quoted(source.Ref))
		}
		refs[source.Ref] = true
	}
	if spec.Destination.Server != "" && spec.Destination.Name != "" {
		d.Invalid(declare.Join(place, "destination"), "server and name are both there: keep one")
	}
	if policy := spec.SyncPolicy; policy != nil {
		at := declare.Join(place, "syncPolicy")
		d.optionRules(policy.SyncOptions, declare.Join(at, "syncOptions"))
		d.retryRules(policy.Retry, declare.Join(at, "retry"))
		// Without CreateNamespace the metadata would never be written.
		if policy.ManagedNamespaceMetadata != nil {
			options, _ := ParseSyncOptions(policy.SyncOptions, "")
			if !options.CreateNamespace.Or(false) {
				d.Invalid(declare.Join(at, "managedNamespaceMetadata"), "it needs CreateNamespace=true in syncOptions")
			}
		}
	}
	for i, ignored := range spec.IgnoreDifferences {
		for j, pointer := range ignored.JSONPointers {
			if !strings.HasPrefix(pointer, "/") {
				at := fmt.Sprintf("%s[%d].jsonPointers[%d]", declare.Join(place, "ignoreDifferences"), i, j)
				d.Invalid(at, "%s is not a JSON pointer: write one such as /spec/replicas", declare.Quoted(pointer))
			}
		}
	}
}

// resolveSources leaves one of source and sources. As in Argo CD, sources win; a
// source beside them is removed, with any problems that it has.
func (d *decoder) resolveSources(spec *ApplicationSpec, place string) {
	switch {
	case spec.Source != nil && len(spec.Sources) > 0:
		d.ignore(declare.Join(place, "source"), "it has no effect, because there are sources: remove one of both")
		spec.Source = nil
	case spec.Source == nil && len(spec.Sources) == 0:
		d.Invalid(declare.Join(place, "source"), "it is missing: give the source of the manifests")
	}
}

// sourceRules checks one source. several is set for an element of sources,
// which others can refer to.
func (d *decoder) sourceRules(source *ApplicationSource, place string, several bool) {
	switch {
	case source.RepoURL == "":
		d.Invalid(declare.Join(place, "repoURL"), "it is empty: give the address of the repository")
	case source.Chart != "" && source.Path != "":
		d.Invalid(declare.Join(place, "chart"), "chart and path are both there: a chart repository has charts, and Git has paths")
	case source.Chart != "" && source.TargetRevision == "":
		d.Invalid(declare.Join(place, "targetRevision"), "it is missing: a chart needs a version, or a range such as 1.x")
	case source.Ref != "" && !several:
		d.Invalid(declare.Join(place, "ref"), "only a source in sources can have it: there is nothing that could refer to it")
	case source.Path == "" && source.Chart == "" && source.Ref == "":
		d.Invalid(declare.Join(place, "path"), "it is missing: give the folder, or . for the whole repository")
	}
	if source.Chart != "" && source.TagPrefix != "" {
		d.ignore(declare.Join(place, "tagPrefix"), "it has no effect, because a chart repository has no tags: remove it")
		source.TagPrefix = ""
	}
	d.resolveRenderer(source, place)
	if source.Kustomize != nil {
		d.kustomizeRules(source.Kustomize, declare.Join(place, "kustomize"))
	}
}

// resolveRenderer leaves one of helm, kustomize, plugin and directory. Empty
// options choose nothing, as in Argo CD, which removes them. Between the first
// three only the author can decide; directory is the fallback for folders that none
// of them renders, so it gives way.
func (d *decoder) resolveRenderer(source *ApplicationSource, place string) {
	var renderers []string
	for name, set := range map[string]bool{"helm": isSet(source.Helm), "kustomize": isSet(source.Kustomize), "plugin": isSet(source.Plugin)} {
		if set {
			renderers = append(renderers, name)
		}
	}
	slices.Sort(renderers)
	switch {
	case len(renderers) > 1:
		d.Invalid(place, "it has both %s and %s: keep the one that renders it", renderers[0], renderers[1])
	case isSet(source.Directory) && len(renderers) > 0:
		d.ignore(declare.Join(place, "directory"), "it has no effect, because %s renders the source: remove one of both", renderers[0])
		source.Directory = nil
	}
}

// isSet reports whether a group of options has any.
func isSet[T any](options *T) bool {
	return options != nil && !reflect.ValueOf(options).Elem().IsZero()
}

// ignore warns of a part of an object that something else takes precedence over,
// and withdraws what was reported in it.
func (d *decoder) ignore(place, format string, args ...any) {
	inside := func(r refusal.Refusal) bool { return isBelow(r.Field, place) }
	d.Refused, d.Warnings = slices.DeleteFunc(d.Refused, inside), slices.DeleteFunc(d.Warnings, inside)
	d.Warn(place, format, args...)
}

// kustomizeRules checks the options of patches and the numbers of replicas.
func (d *decoder) kustomizeRules(options *ApplicationSourceKustomize, place string) {
	for i := range options.Patches {
		for _, name := range slices.Sorted(maps.Keys(options.Patches[i].Options)) {
			if name != "allowNameChange" && name != "allowKindChange" {
				at := fmt.Sprintf("%s.patches[%d].options.%s", place, i, declare.Shorten(name))
				d.Refuse(at, refusal.Unknown, "there is no such option: the options are allowNameChange, allowKindChange")
			}
		}
	}
	for i := range options.Replicas {
		if _, err := options.Replicas[i].Number(); err != nil {
			d.Invalid(fmt.Sprintf("%s.replicas[%d].count", place, i), "%v", err)
		}
	}
}

// optionRules warns of unknown sync options, which Argo CD ignores, and refuses
// known ones with values that they do not have: there the author's intent is
// clear, and the opposite would be done.
func (d *decoder) optionRules(options []string, place string) {
	_, refused := ParseSyncOptions(options, place)
	for _, r := range refused {
		if r.Reason == refusal.Unknown {
			d.Warn(r.Field, "it has no effect: %s", r.Message)
			continue
		}
		d.Refused = append(d.Refused, r)
	}
}

// retryRules checks the durations of a backoff.
func (d *decoder) retryRules(retry *RetryStrategy, place string) {
	if retry == nil || retry.Backoff == nil {
		return
	}
	if _, err := parseWait(retry.Backoff.Duration); err != nil {
		d.Invalid(declare.Join(place, "backoff.duration"), "%v", err)
	}
	if _, err := parseWait(retry.Backoff.MaxDuration); err != nil {
		d.Invalid(declare.Join(place, "backoff.maxDuration"), "%v", err)
	}
}

// operationRules checks a requested operation.
func (d *decoder) operationRules(operation *Operation) {
	if operation == nil {
		return
	}
	d.retryRules(operation.Retry, "operation.retry")
	if operation.Sync == nil {
		d.Invalid("operation.sync", "it is missing: an operation is a sync")
		return
	}
	// An operation is a request of the moment and in no repository: a misspelled
	// option is refused, so that its author sees it before anything is done.
	_, refused := ParseSyncOptions(operation.Sync.SyncOptions, "operation.sync.syncOptions")
	d.Refused = append(d.Refused, refused...)
	if operation.Sync.Source != nil {
		d.sourceRules(operation.Sync.Source, "operation.sync.source", false)
	}
	for i := range operation.Sync.Sources {
		d.sourceRules(&operation.Sync.Sources[i], fmt.Sprintf("operation.sync.sources[%d]", i), true)
	}
}

// maxWindow bounds a sync window: a longer one is no window.
const maxWindow = 366 * 24 * time.Hour

// projectRules checks sync windows and ServiceAccounts. Other rules are
// compiled by internal/gitops/project, which fails closed.
func (d *decoder) projectRules(spec *AppProjectSpec) {
	for i := range spec.SyncWindows {
		window := &spec.SyncWindows[i]
		place := fmt.Sprintf("spec.syncWindows[%d]", i)
		// An invalid kind was refused already.
		if window.Kind == "" && !d.refusedAt(declare.Join(place, "kind")) {
			d.Invalid(declare.Join(place, "kind"), "it is missing: write allow or deny")
		}
		if len(strings.Fields(window.Schedule)) != 5 {
			d.Invalid(declare.Join(place, "schedule"), "%s is not a cron expression: write minute, hour, day, month and weekday", declare.Quoted(window.Schedule))
		}
		if length, err := time.ParseDuration(window.Duration); err != nil || length <= 0 || length > maxWindow {
			d.Invalid(declare.Join(place, "duration"), "%s is not a time: write one such as 1h", declare.Quoted(window.Duration))
		}
		if _, err := time.LoadLocation(window.TimeZone); err != nil {
			d.Invalid(declare.Join(place, "timeZone"), "%s is not a time zone: write one such as Europe/Berlin", declare.Quoted(window.TimeZone))
		}
	}
	for i, account := range spec.DestinationServiceAccounts {
		if strings.ContainsAny(account.DefaultServiceAccount, "!*") || account.DefaultServiceAccount == "" {
			d.Invalid(fmt.Sprintf("spec.destinationServiceAccounts[%d].defaultServiceAccount", i), "it has to name one ServiceAccount, as name or namespace:name")
		}
	}
}
