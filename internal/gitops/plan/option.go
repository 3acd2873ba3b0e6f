package plan

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Permission is the value of Prune and Delete.
type Permission string

// The permissions. Empty means yes.
const (
	Yes     Permission = ""
	No      Permission = "false"
	Confirm Permission = "confirm"
)

// ObjectOptions are the sync options that an Application sets for all of its
// objects, and an object for itself.
type ObjectOptions struct {
	Prune  Permission
	Delete Permission
	// PruneLast prunes after everything else is applied and healthy.
	PruneLast bool
	// Replace writes the object as it is instead of applying it.
	Replace bool
	// Force deletes and creates what cannot be changed.
	Force bool
	// SkipValidation is Validate=false.
	SkipValidation bool
	// SkipDryRunOnMissingResource lets a kind be unknown until its turn comes.
	SkipDryRunOnMissingResource bool
	// RespectIgnoreDifferences leaves ignored fields as they are.
	RespectIgnoreDifferences bool
}

// Options are those of one operation.
type Options struct {
	ObjectOptions

	// AllowPrune lets what is no longer rendered be deleted. It is the prune of
	// the operation; the option Prune restricts it.
	AllowPrune bool
	// AllowEmpty lets a render without resources prune everything.
	AllowEmpty bool
	// Propagation is how dependents of what is deleted go. Empty is Foreground.
	Propagation metav1.DeletionPropagation

	CreateNamespace bool
	// NamespaceLabels and NamespaceAnnotations are managedNamespaceMetadata.
	// They are set on a namespace that exists too, if ManageNamespace is set.
	ManageNamespace      bool
	NamespaceLabels      map[string]string
	NamespaceAnnotations map[string]string

	FailOnSharedResource bool
	// ApplyOutOfSyncOnly leaves out what is as desired. Hooks run nevertheless.
	ApplyOutOfSyncOnly bool
	// SelfHeal is a sync of what is not as desired, without hooks.
	SelfHeal bool
	// Selection, if it is not empty, is what is synced, without hooks.
	Selection []Selector
	// SkipHooks is the sync strategy apply.
	SkipHooks bool
	DryRun    bool
}

// withoutHooks reports whether no hooks run.
func (o *Options) withoutHooks() bool { return o.SkipHooks || o.SelfHeal || len(o.Selection) > 0 }

// of are the options of an object: its annotation goes before the options of
// the Application.
func (o ObjectOptions) of(object *unstructured.Unstructured) (ObjectOptions, []string) {
	var unknown []string
	for _, word := range words(object, annotationOptions) {
		name, value, _ := strings.Cut(word, "=")
		if !o.set(strings.TrimSpace(name), strings.TrimSpace(value)) {
			unknown = append(unknown, fmt.Sprintf("%s has no meaning here", quoted(word)))
		}
	}
	if hasWord(object, annotationHelmKeepPolicy, "keep") {
		o.Delete = No
	}
	return o, unknown
}

// Unvalidated reports whether an object is written without validation of its
// fields, by the option of the Application or its own.
func (o ObjectOptions) Unvalidated(object *unstructured.Unstructured) bool {
	own, _ := o.of(object)
	return own.SkipValidation
}

// set is one option of an object. Those that only mean something for another
// way to apply than ours are known and change nothing.
func (o *ObjectOptions) set(name, value string) bool {
	if name == "Prune" || name == "Delete" {
		permission, ok := permissionOf(value)
		if ok && name == "Prune" {
			o.Prune = permission
		} else if ok {
			o.Delete = permission
		}
		return ok
	}
	if value != "true" && value != "false" {
		return false
	}
	yes := value == "true"
	switch name {
	case "PruneLast":
		o.PruneLast = yes
	case "Replace":
		o.Replace = yes
	case "Force":
		o.Force = yes
	case "Validate":
		o.SkipValidation = !yes
	case "SkipDryRunOnMissingResource":
		o.SkipDryRunOnMissingResource = yes
	case "RespectIgnoreDifferences":
		o.RespectIgnoreDifferences = yes
	case "ServerSideApply", "ClientSideApplyMigration":
	default:
		return false
	}
	return true
}

func permissionOf(value string) (Permission, bool) {
	switch value {
	case "true":
		return Yes, true
	case "false":
		return No, true
	case "confirm":
		return Confirm, true
	}
	return Yes, false
}
