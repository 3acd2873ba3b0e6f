package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/access/mode"
)

// right is a permission that the installer needs. Resources are plural, as in
// RBAC rules.
type right struct {
	group, resource string
	verbs           []string
	// cluster is set for cluster-scoped resources.
	cluster bool
}

// rightsFor returns the permissions for an installation in a mode: the
// documented ones (R14), and those for the other objects of the chart.
func rightsFor(chosen mode.Mode, singleNamespace bool) []right {
	all := []string{"create", "update", "delete"}
	const rbac, apps, networking = "rbac.authorization.k8s.io", "apps", "networking.k8s.io"
	rights := []right{
		{"", "serviceaccounts", []string{"create", "delete"}, false},
		{"", "configmaps", all, false},
		{"", "services", all, false},
		{"", "persistentvolumeclaims", all, false},
		{"", "pods", all, false},
		{rbac, "roles", all, false},
		{rbac, "rolebindings", all, false},
		{"", "secrets", []string{"get", "list", "create", "update", "delete"}, false},
		{apps, "deployments", all, false},
		{"policy", "poddisruptionbudgets", all, false},
		{"batch", "jobs", []string{"create", "delete"}, false},
	}
	switch chosen {
	case mode.Ingress:
		rights = append(rights, right{networking, "ingresses", all, false})
	case mode.HTTPRoute:
		rights = append(rights, right{"gateway.networking.k8s.io", "httproutes", all, false})
	case mode.Mesh:
		rights = append(rights, right{mode.IstioGroup, "virtualservices", all, false})
	case mode.Unresolved, mode.Tunnel:
	}
	// Without cluster-wide objects the installer needs no cluster-scoped
	// permissions.
	if singleNamespace {
		return rights
	}
	return append(rights,
		right{rbac, "clusterroles", all, true},
		right{rbac, "clusterrolebindings", all, true},
		right{"apiextensions.k8s.io", "customresourcedefinitions", []string{"create", "update"}, true},
		right{networking, "ingressclasses", all, true},
	)
}

// checkRights is P4: the user of the kubeconfig has all permissions, by one
// SelfSubjectAccessReview each.
func checkRights(ctx context.Context, in *CheckContext, out *Report) {
	out.inspect("SelfSubjectAccessReviews for the namespace %s", in.Settings.Namespace)
	if !in.SingleNamespace {
		// A cluster admin needs no further reviews (R13).
		allowed, err := in.allowed(ctx, right{"*", "*", nil, true}, "*")
		if err != nil {
			out.readError("selfsubjectaccessreviews", err)
			return
		}
		if allowed {
			out.inspect("everything is allowed")
			return
		}
	}
	missing, err := in.missingRights(ctx, rightsFor(in.requestedMode(), in.SingleNamespace))
	if err != nil {
		out.readError("selfsubjectaccessreviews", err)
		return
	}
	if !in.SingleNamespace {
		// The chart's roles read the whole cluster. RBAC prevents privilege
		// escalation: without these verbs a user cannot create a role with
		// more permissions than their own.
		escalation, err := in.missingRights(ctx, []right{{"rbac.authorization.k8s.io", "clusterroles", []string{"escalate", "bind"}, true}})
		if err != nil {
			out.readError("selfsubjectaccessreviews", err)
			return
		}
		missing = append(missing, escalation...)
	}
	if len(missing) > 0 {
		out.fail("the user of the kubeconfig", "permissions are missing: "+describeRights(missing), rightsRole(missing, in.Settings.Namespace))
	}
}

// missingRights returns the permissions that the API server does not grant.
func (in *CheckContext) missingRights(ctx context.Context, wanted []right) ([]right, error) {
	var missing []right
	for _, one := range wanted {
		var verbs []string
		// One review per verb: a SelfSubjectRulesReview may be incomplete
		// with webhook authorizers.
		for _, verb := range one.verbs {
			allowed, err := in.allowed(ctx, one, verb)
			if err != nil {
				return nil, err
			}
			if !allowed {
				verbs = append(verbs, verb)
			}
		}
		if len(verbs) > 0 {
			one.verbs = verbs
			missing = append(missing, one)
		}
	}
	return missing, nil
}

// allowed sends one SelfSubjectAccessReview.
func (in *CheckContext) allowed(ctx context.Context, one right, verb string) (bool, error) {
	attributes := &authorizationv1.ResourceAttributes{Group: one.group, Resource: one.resource, Verb: verb}
	if !one.cluster {
		attributes.Namespace = in.Settings.Namespace
	}
	review, err := in.Cluster.Client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

// describeRights formats permissions as verbs and resource.group.
func describeRights(missing []right) string {
	var parts []string
	for _, one := range missing {
		resource := one.resource
		if one.group != "" {
			resource += "." + one.group
		}
		parts = append(parts, strings.Join(one.verbs, ",")+" "+resource)
	}
	return strings.Join(parts, "; ")
}

// rightsRole returns a ClusterRole with the missing permissions, and how to
// bind it.
func rightsRole(missing []right, namespace string) string {
	// Only missing permissions are granted, so the role is as small as
	// possible.
	role := rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "slipway-installer"},
	}
	for _, one := range missing {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{one.group}, Resources: []string{one.resource}, Verbs: one.verbs})
	}
	text, err := yaml.Marshal(role)
	if err != nil {
		return "request these permissions from an administrator"
	}
	// A RoleBinding to the ClusterRole suffices if nothing is cluster-scoped.
	bind := "kubectl create clusterrolebinding slipway-installer --clusterrole slipway-installer --user USER"
	if !slices.ContainsFunc(missing, func(one right) bool { return one.cluster }) {
		bind = fmt.Sprintf("kubectl -n %s create rolebinding slipway-installer --clusterrole slipway-installer --user USER", namespace)
	}
	return "have an administrator apply this role and run: " + bind + "\n" + string(text)
}
