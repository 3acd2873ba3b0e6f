package preflight

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// notInNames matches characters that a DNS label cannot have.
var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// checkNamespace is P9: the namespace has a valid name (R44) and is not being
// deleted. After the installation it must exist.
func checkNamespace(ctx context.Context, in *CheckContext, out *Report) {
	name := in.Settings.Namespace
	out.inspect("the namespace %q", name)
	// A corrected name is proposed if one can be derived.
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		fix := "choose a name of lower-case letters, digits and dashes"
		if better := correctedLabel(name); better != "" {
			fix = "use " + better
		}
		out.fail("namespace", fmt.Sprintf("%q is no name of a namespace: %s", name, strings.Join(problems, "; ")), fix)
		return
	}
	// Before the installation a missing namespace is no problem: Helm creates
	// it.
	found, err := in.Cluster.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && in.Stage == Before:
		out.inspect("it is not there yet, and Helm makes it (--create-namespace)")
	case apierrors.IsNotFound(err):
		out.fail(named("Namespace", "", name), "it does not exist", "install the runtime, or name its namespace with --namespace")
	case err != nil:
		out.readError("namespaces", err)
	case found.Status.Phase == corev1.NamespaceTerminating:
		out.fail(named("Namespace", "", name), "it is being deleted", "wait until it is gone: kubectl wait --for=delete namespace/"+name+" --timeout=10m")
	}
}

// correctedLabel returns the nearest valid name; empty if nothing is left.
func correctedLabel(name string) string {
	// Runs of invalid characters become one dash; dashes at the ends are
	// removed after truncation too.
	text := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(name), "-"), "-")
	return strings.Trim(text[:min(len(text), maxLabel)], "-")
}
