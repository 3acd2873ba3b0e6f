package preflight

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
)

// sealedSecretsCRD is what a sealed-secrets controller brings.
const sealedSecretsCRD = "sealedsecrets.bitnami.com"

// checkSealedSecrets is P6: the CRD of sealed-secrets (R20). The runtime brings no
// such controller, so one that is there is used and is no obstacle.
func checkSealedSecrets(ctx context.Context, in *Inquiry, out *Report) {
	out.look("CustomResourceDefinition %s", sealedSecretsCRD)
	_, err := in.Cluster.Metadata.Resource(kube.DefinitionResource()).Get(ctx, sealedSecretsCRD, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		out.unseen("customresourcedefinitions", err)
	default:
		out.note(sealedSecretsCRD, "a sealed-secrets controller is there: the runtime brings none, and SealedSecrets in Git are opened by that one")
	}
}
