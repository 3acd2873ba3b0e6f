package preflight

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
)

// sealedSecretsCRD is the CRD of the sealed-secrets controller.
const sealedSecretsCRD = "sealedsecrets.bitnami.com"

// checkSealedSecrets is P6: the CRD of sealed-secrets (R20). The runtime does
// not install this controller, so an existing one is used and no conflict.
func checkSealedSecrets(ctx context.Context, in *CheckContext, out *Report) {
	out.inspect("CustomResourceDefinition %s", sealedSecretsCRD)
	// Metadata is enough to find out whether the CRD exists.
	_, err := in.Cluster.Metadata.Resource(kube.DefinitionResource()).Get(ctx, sealedSecretsCRD, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		out.readError("customresourcedefinitions", err)
	default:
		out.note(sealedSecretsCRD, "a sealed-secrets controller exists: the runtime installs none, and this one decrypts SealedSecrets in Git")
	}
}
