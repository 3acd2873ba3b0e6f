package preflight

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/access/mode"
)

// evaluateEnterpriseTLS checks the additional requirements of NGINX
// Enterprise: a certificate in the namespace of the runtime (R94), and after
// the installation an Ingress that names it (R95). This controller presents
// no certificate for a host whose Ingress names none.
func (in *CheckContext) evaluateEnterpriseTLS(ctx context.Context, host string, out *Report) {
	if in.requestedMode() != mode.Ingress {
		return
	}
	view, err := in.controller()
	if err != nil || !view.known || view.controller.ID != NGINXEnterprise {
		return // reported by P14
	}
	out.inspect("Secrets of type kubernetes.io/tls in the namespace %s", in.Settings.Namespace)
	// Any matching Secret will do, regardless of its name.
	names, err := in.secretsFor(ctx, host)
	if err != nil {
		out.readError("secrets", err)
		return
	}
	if len(names) == 0 {
		out.pending("namespace "+in.Settings.Namespace, "it has no Secret with a certificate for "+host+", and NGINX Enterprise reads it there",
			fmt.Sprintf("kubectl -n %s create secret tls NAME --cert=CHAIN --key=KEY, or copy one that you have", in.Settings.Namespace))
	}
	if in.Stage == After {
		in.evaluateIngressTLS(ctx, host, names, out)
	}
}

// secretsFor returns the Secrets with a valid certificate for the host.
func (in *CheckContext) secretsFor(ctx context.Context, host string) ([]string, error) {
	// The field selector avoids reading other Secrets of the namespace.
	list, err := in.Cluster.Client.CoreV1().Secrets(in.Settings.Namespace).List(ctx, metav1.ListOptions{
		Limit: maxListed, FieldSelector: "type=" + string(corev1.SecretTypeTLS),
	})
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range list.Items {
		chain := chainOf(&list.Items[i])
		if len(chain) > 0 && chain[0].VerifyHostname(host) == nil && in.Now().Before(chain[0].NotAfter) {
			names = append(names, list.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// evaluateIngressTLS checks spec.tls of the Ingress. The fix is offered only
// if exactly one Secret matches.
func (in *CheckContext) evaluateIngressTLS(ctx context.Context, host string, names []string, out *Report) {
	subject := named("Ingress", in.Settings.Namespace, mode.RouterService)
	out.inspect("spec.tls of %s", subject)
	ingress, err := in.routerIngress(ctx)
	if err != nil {
		out.missing(subject, err, "install the runtime with --mode ingress")
		return
	}
	if slices.ContainsFunc(ingress.Spec.TLS, func(one networkingv1.IngressTLS) bool {
		return one.SecretName != "" && slices.Contains(one.Hosts, host)
	}) {
		return
	}
	finding := out.fail(subject, "its spec.tls names no certificate for "+host,
		fmt.Sprintf("set global.runtime.ingress.tls to [{hosts: [%s], secretName: NAME}] and upgrade the release", host))
	if len(names) != 1 {
		return
	}
	// A value of the release: a patch of the Ingress would be a conflict in its
	// next upgrade. The list is replaced, so existing entries are included.
	var tls []any
	for _, one := range append(slices.Clone(ingress.Spec.TLS), networkingv1.IngressTLS{Hosts: []string{host}, SecretName: names[0]}) {
		tls = append(tls, map[string]any{"hosts": one.Hosts, "secretName": one.SecretName})
	}
	finding.Fix = fmt.Sprintf("set global.runtime.ingress.tls to [{hosts: [%s], secretName: %s}] and upgrade the release, or let --fix do it", host, names[0])
	in.offerRelease(finding, map[string]any{"global": map[string]any{"runtime": map[string]any{"ingress": map[string]any{"tls": tls}}}})
}
