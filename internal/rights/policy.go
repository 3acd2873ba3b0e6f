// Package rights decides who may do what, with Argo CD's model of rights: lines
// of policy.csv that allow or deny (p), lines that give roles (g), the built-in
// roles role:readonly and role:admin, a default role, and the roles of
// AppProjects, which are limited to their project.
//
// It promises the decisions that Argo CD's documentation describes
// (operator-manual/rbac.md, user-guide/projects.md): a deny wins over every
// allow, the default role is decided first, order has no effect. Two of its
// rules are stricter than Argo CD's server, as the documentation is: a deny for
// a user or for one of the groups wins over an allow for another group, and a
// deny of the default role is final. A decision takes time in proportion to the
// rules of the subject; no pattern is expensive, because Go's regular
// expressions do not backtrack.
//
// It refuses lines that could never match, names of groups that pretend to be
// roles, and rules of a project about another project.
//
// Argo CD evaluates its policies with Casbin. Here they are matched directly:
// the model is one fixed line, the patterns are those of
// internal/gitops/glob, and Casbin would bring an expression language, and no
// reason for a decision.
package rights

import (
	"cmp"
	"slices"
)

// Request is a question to a Policy: may the subject, or a member of one of the
// groups, do the action to the object?
type Request struct {
	// Subject is the user, as policies name it.
	Subject string
	// Groups are those of the user, from the identity provider. Names that
	// begin with role:, proj:, slipway: or runtime: are ignored: they are roles, which no
	// provider may give.
	Groups []string
	// Roles are what the platform gives the user beside the policies, such as
	// PlatformRole("operator"). The caller has verified them.
	Roles []string
	// Resource is one of the names in Resources, such as applications.
	Resource string
	// Action is the verb: get, sync, action/apps/Deployment/restart,
	// delete/apps/Deployment/NAMESPACE/NAME.
	Action string
	// Object is PROJECT/APPLICATION, PROJECT/NAMESPACE/APPLICATION, or the name
	// of something else.
	Object string
}

// Decision is the result of a Request.
type Decision struct {
	Allowed bool
	// Rule is the line that decided, with its place. It is empty if no line
	// matched.
	Rule string
	// Why is a sentence for the user.
	Why string
}

// Explain returns why it is not allowed, with the rule that denies it.
func (d Decision) Explain() string {
	if d.Rule == "" {
		return d.Why
	}
	return d.Why + " (" + d.Rule + ")"
}

// Policy is a set of rules. It is immutable, so that it may be shared; the nil
// Policy has the built-in roles only.
type Policy struct {
	rules       map[string][]rule    // by subject
	bindings    map[string][]binding // by member
	defaultRole string
	mode        Mode
	inherit     bool
}

// rule is a p line.
type rule struct {
	resource, action, object pattern
	deny                     bool
	// project limits the rule to requests about one project. It is empty for
	// rules of the whole system.
	project string
	place   string
	fields  []string // of the line
}

// binding is a g line: the member has everything that the role has.
type binding struct {
	role    string
	project string // as in rule
}

// Merge returns a policy with the rules of all. The first default role counts,
// and the first match mode: rules keep the mode that they were parsed with.
func Merge(policies ...*Policy) *Policy {
	merged := newPolicy("")
	for _, p := range policies {
		if p == nil {
			continue
		}
		for subject, rules := range p.rules {
			merged.rules[subject] = slices.Concat(merged.rules[subject], rules)
		}
		for member, bindings := range p.bindings {
			merged.bindings[member] = slices.Concat(merged.bindings[member], bindings)
		}
		merged.defaultRole = cmp.Or(merged.defaultRole, p.defaultRole)
		merged.mode = cmp.Or(merged.mode, p.mode)
		merged.inherit = merged.inherit || p.inherit
	}
	return merged
}

// Mode returns how the patterns of the policy are matched. Roles of AppProjects
// are parsed with the mode of argocd-rbac-cm.
func (p *Policy) Mode() Mode {
	if p == nil {
		return Glob
	}
	return cmp.Or(p.mode, Glob)
}

// WithDefault returns the policy with a role that every user has
// (policy.default).
func (p *Policy) WithDefault(role string) *Policy {
	changed := Merge(p)
	changed.defaultRole = role
	return changed
}

// WithInheritance returns the policy with the rule of Argo CD before version 3:
// update and delete of an Application are rights on its resources too. It is
// server.rbac.disableApplicationFineGrainedRBACInheritance: "false" in
// argocd-cm.
func (p *Policy) WithInheritance() *Policy {
	changed := Merge(p)
	changed.inherit = true
	return changed
}
