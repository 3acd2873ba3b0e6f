package preflight

import (
	"context"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/kube"
)

// rbacGroup is the API group of roles and bindings.
const rbacGroup = "rbac.authorization.k8s.io"

// right is a permission that the installer needs. Resources are plural, as in
// RBAC rules, with a subresource after a slash.
type right struct {
	group, resource string
	// namespace is empty for the whole cluster.
	namespace string
	verbs     []string
}

// rightsFor returns the permissions to install, upgrade and uninstall the
// objects of a chart: those for each object, and those for what the release
// itself needs in its namespace.
func rightsFor(objects []Object, namespace string) []right {
	// Helm reads an object to compare its owner, creates or patches it, watches
	// hooks until they end, and deletes. Helm 3 lists and updates as well.
	all := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	rights := []right{
		// The records of the release, and the Secrets beside it.
		{"", "secrets", namespace, all},
		// The namespace is created if it is missing, and deleted again if that
		// installation fails.
		{"", "namespaces", "", []string{"get", "create", "delete"}},
		{kube.DefinitionResource().Group, kube.DefinitionResource().Resource, "", []string{"get", "create", "update", "patch"}},
		// The reasons of Pods that do not start, and the output of hooks.
		{"", "pods", namespace, []string{"get", "list", "watch"}},
		{"", "pods/log", namespace, []string{"get"}},
		{"", "events", namespace, []string{"list"}},
		// An uninstall deletes what the runtime has created for itself.
		{"argoproj.io", "applications", namespace, []string{"get", "list", "delete"}},
		{"coordination.k8s.io", "leases", namespace, []string{"list", "delete"}},
	}
	for _, object := range objects {
		one := right{object.Group, object.resource().Resource, object.Namespace, all}
		// RBAC prevents privilege escalation: without these verbs a user can
		// neither create nor bind a role with more permissions than their own.
		if one.group == rbacGroup && (one.resource == "roles" || one.resource == "clusterroles") {
			one.verbs = slices.Concat(all, []string{"escalate", "bind"})
		}
		if !slices.ContainsFunc(rights, func(other right) bool {
			return other.group == one.group && other.resource == one.resource && other.namespace == one.namespace
		}) {
			rights = append(rights, one)
		}
	}
	return rights
}

// checkRights is P4: the user of the kubeconfig has all permissions, by one
// SelfSubjectAccessReview each.
func checkRights(ctx context.Context, in *CheckContext, out *Report) {
	if len(in.Objects) == 0 {
		out.skip("the objects of the chart are not known: see %s", AccessMode)
		return
	}
	out.inspect("SelfSubjectAccessReviews for the namespace %s", in.Settings.Namespace)
	// A cluster admin needs no further reviews (R13).
	admin, err := in.allowed(ctx, right{group: "*", resource: "*"}, "*")
	if err != nil {
		out.readError("selfsubjectaccessreviews", err)
		return
	}
	if admin {
		out.inspect("everything is allowed")
		return
	}
	wanted := rightsFor(in.Objects, in.Settings.Namespace)
	missing, err := in.missingRights(ctx, wanted)
	if err != nil {
		out.readError("selfsubjectaccessreviews", err)
		return
	}
	if len(missing) > 0 {
		out.fail("the user of the kubeconfig", "permissions are missing: "+describeRights(missing), rightsRole(wanted, in.userName(ctx)))
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
	resource, subresource, _ := strings.Cut(one.resource, "/")
	review, err := in.Cluster.Client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: one.group, Resource: resource, Subresource: subresource, Namespace: one.namespace, Verb: verb,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

// userName returns the user that the API server authenticates, or a
// placeholder if it is too old to tell.
func (in *CheckContext) userName(ctx context.Context) string {
	review, err := in.Cluster.Client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username == "" {
		return "USER"
	}
	return review.Status.UserInfo.Username
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

// rightsRole returns a ClusterRole with the permissions, and how to bind it.
// It has all of them and not only the missing ones: applied a second time, a
// smaller role would take away what the first one gave.
func rightsRole(wanted []right, user string) string {
	role := rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacGroup + "/v1", Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "slipway-installer"},
	}
	for _, one := range wanted {
		// Resources with the same verbs share a rule, so that the role is short.
		same := slices.IndexFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
			return rule.APIGroups[0] == one.group && slices.Equal(rule.Verbs, one.verbs)
		})
		switch {
		case same < 0:
			role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{one.group}, Resources: []string{one.resource}, Verbs: one.verbs})
		case !slices.Contains(role.Rules[same].Resources, one.resource):
			role.Rules[same].Resources = append(role.Rules[same].Resources, one.resource)
		}
	}
	text, err := yaml.Marshal(role)
	if err != nil {
		return "request these permissions from an administrator"
	}
	return "have an administrator apply this role and run: kubectl create clusterrolebinding slipway-installer --clusterrole slipway-installer --user " + user + "\n" + string(text)
}
