package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// argoPart is one of the Argo projects with the marks of its controllers.
type argoPart struct {
	name   string
	images []string // last parts of image names
	labels []string // values of app.kubernetes.io/part-of
}

// argoParts returns the Argo projects. Images may be mirrored, so only their
// suffix is compared.
func argoParts() []argoPart {
	return []argoPart{
		{"Argo CD", []string{"argoproj/argocd", "argocd"}, []string{"argocd"}},
		{"Argo Rollouts", []string{"argoproj/argo-rollouts", "argo-rollouts"}, []string{"argo-rollouts"}},
		{"Argo Workflows", []string{"argoproj/workflow-controller", "argoproj/argocli", "workflow-controller", "argocli"}, []string{"argo-workflows"}},
		{"Argo Events", []string{"argoproj/argo-events", "argo-events"}, []string{"argo-events"}},
	}
}

// runs reports whether a Deployment belongs to the project, by label or
// image.
func (p argoPart) runs(deployment appsv1.Deployment) bool {
	// The label survives renamed images; the image survives missing labels.
	labels := deployment.Labels
	if slices.Contains(p.labels, labels["app.kubernetes.io/part-of"]) {
		return true
	}
	return slices.ContainsFunc(deployment.Spec.Template.Spec.Containers, func(container containerSpec) bool {
		return imageIs(container.Image, p.images)
	})
}

// checkArgoCollision is P5: no Argo CD works on the Applications of the
// runtime's namespace. Argo projects in other namespaces are supported (R27).
func checkArgoCollision(ctx context.Context, in *CheckContext, out *Report) {
	out.inspect("Deployments of Argo CD, Rollouts, Workflows and Events by image and label")
	list, err := in.Cluster.Client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{Limit: maxListed})
	if err != nil {
		out.readError("deployments", err)
		return
	}
	for _, part := range argoParts() {
		// One finding per namespace, not per Deployment.
		byNamespace := map[string][]string{}
		for _, deployment := range list.Items {
			if part.runs(deployment) {
				byNamespace[deployment.Namespace] = append(byNamespace[deployment.Namespace], deployment.Name)
			}
		}
		for _, namespace := range sortedKeys(byNamespace) {
			argoFinding(part.name, namespace, byNamespace[namespace], in.Settings.Namespace, out)
		}
	}
}

// argoFinding reports one Argo installation.
func argoFinding(part, namespace string, names []string, own string, out *Report) {
	subject := fmt.Sprintf("%s in the namespace %s (%s)", part, namespace, strings.Join(names, ", "))
	switch {
	case part != "Argo CD":
		out.note(subject, "it is not affected: the runtime installs none of its own, and deploys its objects like any other")
	case namespace == own:
		out.fail(subject, "both would reconcile the Applications of this namespace",
			"install the runtime to another namespace, with --namespace, and move Applications one by one with slipway app migrate")
	default:
		out.warn(subject, "it runs besides the runtime, which ignores Applications of other namespaces",
			"keep the tracking by annotation (application.resourceTrackingMethod: annotation+label in argocd-cm), adopt no CRDs that it owns, "+
				"and move Applications with slipway app migrate; remove Deployments only and never the CRDs, which would delete what they describe")
	}
}
