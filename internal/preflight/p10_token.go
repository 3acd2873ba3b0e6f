package preflight

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// reservedSecret is the runtime's own Secret, which it creates when it
	// registers.
	reservedSecret = "slipway-token"
	defaultKey     = "token"
)

// checkTokenSource is P10: the Secret with the API key exists in the
// namespace of the runtime and has the key (R31), or the key is in the
// values.
func checkTokenSource(ctx context.Context, in *CheckContext, out *Report) {
	// The chart accepts either the key itself or a reference; both at once
	// would be ambiguous.
	source := in.Token
	key := cmp.Or(source.SecretKey, defaultKey)
	switch {
	case source.Inline && source.SecretName != "":
		out.fail("global.platform.userToken", "both token and secretKeyRef are given", "keep secretKeyRef")
		return
	case source.Inline:
		out.inspect("the token among the values")
		return
	case source.SecretName == "":
		out.skip("no Secret with the API key is named (--token-secret)")
		return
	case source.SecretName == reservedSecret:
		out.fail(named("Secret", in.Settings.Namespace, source.SecretName), "this name is the runtime's own, which writes its credential there", "put the API key into a Secret of another name")
		return
	}
	// Only the name of the Secret appears in messages.
	where := named("Secret", in.Settings.Namespace, source.SecretName)
	out.inspect("key %s of %s", key, where)
	fix := fmt.Sprintf("kubectl -n %s create secret generic %s --from-file=%s=KEY-FILE", in.Settings.Namespace, source.SecretName, key)
	found, err := in.Cluster.Client.CoreV1().Secrets(in.Settings.Namespace).Get(ctx, source.SecretName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		out.fail(where, "it does not exist", fix)
	case err != nil:
		out.readError("secrets", err)
	// The names of the existing keys are listed, never their values.
	case len(found.Data[key]) == 0:
		out.fail(where, fmt.Sprintf("it has no %s; it has %s", key, shorten(sortedKeys(found.Data))), "name the right key, or make the Secret again: "+fix)
	}
}
