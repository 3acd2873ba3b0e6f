package migration

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/agent/clusters"
	"slipway.dev/slipway/internal/gitops/argosetting"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/kube"
)

// CodeNotCopied is the code of an obstacle: the runtime reads its own namespace.
const CodeNotCopied = "NotCopied"

// copyFix is what to do about settings that can be copied.
const copyFix = "slipway migrate argocd --copy-settings makes it"

// secrets reports the Secrets of repositories and clusters.
func (a *assessment) secrets(ctx context.Context) error {
	theirs, err := a.Cluster.Client.CoreV1().Secrets(a.Namespace).List(ctx, kube.Labelled(credential.TypeLabel))
	if err != nil {
		a.warn("list the Secrets of the namespace " + a.Namespace + ": " + err.Error())
		return ctx.Err()
	}
	ours, err := a.Cluster.Client.CoreV1().Secrets(a.ControlNamespace).List(ctx, kube.Labelled(credential.TypeLabel))
	if err != nil {
		a.warn("list the Secrets of the namespace " + a.ControlNamespace + ": " + err.Error())
		ours = &corev1.SecretList{}
	}
	a.connectOthers(theirs.Items)
	has, taken := map[string]bool{}, map[string]bool{}
	for i := range ours.Items {
		has[purposeOf(&ours.Items[i])], taken[ours.Items[i].Name] = true, true
	}
	for i := range theirs.Items {
		secret := &theirs.Items[i]
		object := newObject("", "Secret", secret.Namespace, secret.Name)
		readSecret(object, secret)
		// A refused Secret is of no use to the runtime either.
		if object.finish().Effect != argosetting.Refused && !has[purposeOf(secret)] {
			a.needsCopy(object)
			// Access to other clusters is given by slipway cluster add.
			if secret.Labels[credential.TypeLabel] != clusters.TypeCluster && object.Effect != argosetting.Differs && !taken[secret.Name] {
				a.canCopy(object, secret)
			}
		}
		a.report.Objects = append(a.report.Objects, object)
	}
	return nil
}

// needsCopy adds that the runtime reads another namespace.
func (a *assessment) needsCopy(object *Object) {
	object.Obstacles = append(object.Obstacles, finding.Finding{
		Code: CodeNotCopied, Severity: finding.Warning, Message: "the runtime has none of its own",
		Fix: "make the same " + object.Kind + " in the namespace " + a.ControlNamespace,
	})
}

// canCopy adds that the object can be copied as it is given.
func (a *assessment) canCopy(object *Object, content runtime.Object) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(content)
	if err != nil {
		return // the fix is to make it by hand
	}
	object.copied = &unstructured.Unstructured{Object: fields}
	object.copied.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(object.Kind))
	object.Obstacles[len(object.Obstacles)-1].Fix = copyFix
}

// missingCredentials finds sources that a Secret of Argo CD opens, and none of
// the runtime. It is a warning: the runtime can have a credential of its options.
func (a *assessment) missingCredentials(app *inspect.Application) []finding.Finding {
	var found []finding.Finding
	for _, wanted := range app.Spec.AllSources() {
		at, err := address.ParseForeign(wanted.RepoURL)
		if err != nil {
			continue // the proof reports it
		}
		used, opened := a.theirs.For(at, app.Spec.ProjectName())
		if _, has := a.ours.For(at, app.Spec.ProjectName()); !opened || has {
			continue
		}
		secret := used.Identity.Repository
		if secret.Name == "" {
			secret = used.Identity.Prefix
		}
		found = append(found, finding.Finding{
			Code: CodeNotCopied, Severity: finding.Warning, Subject: address.Redact(wanted.RepoURL),
			Message: "the Secret " + secret.String() + " opens it, and the runtime has none for it",
			Fix:     copyFix + ", or make one in the namespace " + a.ControlNamespace,
		})
	}
	return found
}

// purposeOf identifies what a Secret is for: two with the same serve the same.
func purposeOf(secret *corev1.Secret) string {
	text := func(field string) string {
		return strings.TrimSuffix(strings.TrimSpace(string(secret.Data[field])), "/")
	}
	return strings.Join([]string{secret.Labels[credential.TypeLabel], text("url"), text("server"), text("project")}, "\n")
}

// readSecret adds the fields of a Secret. The parser has the last word: it knows
// the rules between fields.
func readSecret(object *Object, secret *corev1.Secret) {
	var err error
	switch kind := credential.Scope(secret.Labels[credential.TypeLabel]); kind {
	case clusters.TypeCluster:
		addClusterFields(object, secret)
		_, err = clusters.Parse(secret)
	case credential.RepositoryWrites, credential.PrefixWrites:
		object.add("", argosetting.NoEffect, "rendered manifests are not written to Git")
	default:
		addFields(object, secret.Data, argosetting.Repository(), "")
		_, err = credential.Parse(secret)
	}
	if err != nil && !object.refusesAField() {
		object.add("", argosetting.Refused, failure(err))
	}
}

// addFields looks the fields of a Secret up. A prefix names the field that they
// are in.
func addFields[V ~string | ~[]byte](object *Object, data map[string]V, table argosetting.Table, prefix string) {
	for _, field := range slices.Sorted(maps.Keys(data)) {
		setting, _ := table.Of(prefix+field, string(data[field]))
		object.add(prefix+field, setting.Effect, setting.Text)
	}
}

// addClusterFields adds the fields of the Secret of a cluster, and those of its
// field config one by one.
func addClusterFields(object *Object, secret *corev1.Secret) {
	plain := maps.Clone(secret.Data)
	delete(plain, "config")
	addFields(object, plain, argosetting.Cluster(), "")
	config := map[string]json.RawMessage{}
	if json.Unmarshal(secret.Data["config"], &config) != nil {
		return // the parser reports it
	}
	for field, value := range config {
		// An empty value of JSON is none in the table.
		if slices.Contains([]string{`""`, "null", "false"}, string(value)) {
			config[field] = nil
		}
	}
	addFields(object, config, argosetting.Cluster(), "config.")
}
