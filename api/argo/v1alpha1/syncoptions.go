package v1alpha1

import (
	"fmt"
	"strings"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/refusal"
)

// Toggle is an option that is on, off, or not set.
type Toggle string

// The texts of a Toggle.
const (
	On  Toggle = "true"
	Off Toggle = "false"
)

// Or returns the option, or a default if it is not set.
func (t Toggle) Or(fallback bool) bool {
	if t == "" {
		return fallback
	}
	return t == On
}

// Consent is whether objects may be deleted: On, Off, or after a confirmation.
// If it is not set they may.
type Consent string

// Confirm requires a confirmation before objects are deleted.
const Confirm Consent = "confirm"

// Allowed reports whether objects may be deleted, and whether that must be
// confirmed first.
func (c Consent) Allowed() (allowed, confirmed bool) {
	return c != Consent(Off), c == Confirm
}

// SyncOptions are the syncOptions of an Application, or the annotation
// sync-options of an object. An empty field is not set.
type SyncOptions struct {
	// Prune and Delete are for objects that left Git, and for objects of an
	// Application that is deleted.
	Prune  Consent `option:"Prune" values:"true,false,confirm"`
	Delete Consent `option:"Delete" values:"true,false,confirm"`

	Validate                    Toggle `option:"Validate"`
	SkipDryRunOnMissingResource Toggle `option:"SkipDryRunOnMissingResource"`
	PruneLast                   Toggle `option:"PruneLast"`
	Replace                     Toggle `option:"Replace"`
	Force                       Toggle `option:"Force"`
	ServerSideApply             Toggle `option:"ServerSideApply"`
	ClientSideApplyMigration    Toggle `option:"ClientSideApplyMigration"`

	// These are of the Application and not of an object.
	ApplyOutOfSyncOnly       Toggle `option:"ApplyOutOfSyncOnly" scope:"application"`
	FailOnSharedResource     Toggle `option:"FailOnSharedResource" scope:"application"`
	RespectIgnoreDifferences Toggle `option:"RespectIgnoreDifferences" scope:"application"`
	CreateNamespace          Toggle `option:"CreateNamespace" scope:"application"`
	// PrunePropagationPolicy is foreground, background or orphan.
	PrunePropagationPolicy string `option:"PrunePropagationPolicy" values:"foreground,background,orphan" scope:"application"`
}

// SyncOptionsAnnotation has the sync options of an object, separated by commas.
const SyncOptionsAnnotation = "argocd.argoproj.io/sync-options"

// ParseSyncOptions parses the sync options of an Application. field is the
// place of the list, for refusals. Callers decide whether an option with
// [refusal.Unknown] is an error: in a stored Application it is a warning.
func ParseSyncOptions(options []string, field string) (SyncOptions, []refusal.Refusal) {
	var parsed SyncOptions
	var refused []refusal.Refusal
	for i, text := range options {
		if err := parsed.set(text, false); err != nil {
			refused = append(refused, *err.At(fmt.Sprintf("%s[%d]", field, i)))
		}
	}
	return parsed, refusal.Bounded(refused, maxListed)
}

// ParseSyncOptionsOf parses the sync options in the annotation of an object.
func ParseSyncOptionsOf(annotations map[string]string) (SyncOptions, []refusal.Refusal) {
	var parsed SyncOptions
	var refused []refusal.Refusal
	for text := range strings.SplitSeq(annotations[SyncOptionsAnnotation], ",") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		if err := parsed.set(text, true); err != nil {
			refused = append(refused, *err.At("metadata.annotations[" + SyncOptionsAnnotation + "]"))
		}
	}
	return parsed, refusal.Bounded(refused, maxListed)
}

// Over returns these options, completed with those of an Application: the
// annotation of an object wins.
func (o SyncOptions) Over(application SyncOptions) SyncOptions {
	defaults := optionFields(&application)
	for i, option := range optionFields(&o) {
		if option.value() == "" {
			option.set(defaults[i].value())
		}
	}
	return o
}

// set parses one option such as Prune=false. A later one wins.
func (o *SyncOptions) set(text string, ofObject bool) *refusal.Refusal {
	name, value, _ := strings.Cut(text, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	var option *optionField
	var names []string
	for _, known := range optionFields(o) {
		names = append(names, known.name)
		if known.name == name {
			option = known
		}
	}
	switch {
	case option == nil:
		if near := declare.Nearest(name, names); near != "" {
			return refusal.New("", refusal.Unknown, "there is no sync option %s: did you mean %s?", declare.Quoted(name), near)
		}
		return refusal.New("", refusal.Unknown, "there is no sync option %s: the options are %s", declare.Quoted(name), strings.Join(names, ", "))
	case ofObject && option.ofApplication:
		return refusal.New("", refusal.Invalid, "%s is not for single objects: write it in syncOptions of the Application", name)
	case !option.takes(value):
		return refusal.New("", refusal.Invalid, "%s=%s is not possible: use one of %s", name, declare.Shorten(value), strings.Join(option.values, ", "))
	}
	option.set(value)
	return nil
}
