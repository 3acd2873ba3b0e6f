package rights

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Decide returns whether a request is allowed, and why. Without a rule that
// allows it, it is not.
func (p *Policy) Decide(request Request) Decision {
	if p == nil {
		p = &Policy{}
	}
	decision := p.decide(request)
	if decision.Allowed || !p.inherit || request.Resource != Applications {
		return decision
	}
	// With inheritance the right on the Application counts beside the one on the
	// resource, so that a deny for the resource alone has no effect: Argo CD
	// documents it so.
	verb, _, isResource := strings.Cut(request.Action, "/")
	if !isResource || verb != "update" && verb != "delete" {
		return decision
	}
	request.Action = verb
	if whole := p.decide(request); whole.Allowed {
		whole.Why += fmt.Sprintf("; the right to %s an Application includes its resources here", verb)
		return whole
	}
	return decision
}

// decide decides without inheritance: the default role first, whose result is
// final, then the subject with the groups.
func (p *Policy) decide(request Request) Decision {
	project := projectOf(request)
	if own, ok := projectOfRole(request.Subject); ok && project != "" && own != project {
		return Decision{Why: fmt.Sprintf("%s is a role of project %s and has no rights in project %s", request.Subject, own, project)}
	}
	if p.defaultRole != "" && !strings.HasPrefix(request.Subject, runtimes) {
		holders := p.holders(project, p.defaultRole)
		if r, holder := p.match(request, project, holders); r != nil {
			why := fmt.Sprintf("the default role %s allows it to every user, and no other rule can deny it", p.defaultRole)
			if r.deny {
				why = fmt.Sprintf("the default role %s denies it to every user, and no other rule can allow it", p.defaultRole)
			}
			if holder.name != p.defaultRole {
				why += ": " + holder.path()
			}
			return Decision{Allowed: !r.deny, Rule: r.String(), Why: why}
		}
	}
	names := request.names()
	r, holder := p.match(request, project, p.holders(project, names...))
	switch {
	case r == nil:
		who := cmp.Or(strings.Join(names, ", "), "a user without a name")
		return Decision{Why: fmt.Sprintf("no rule allows %s to %s %s %s", who, request.Action, request.Resource, request.Object)}
	case r.deny:
		return Decision{Rule: r.String(), Why: fmt.Sprintf("a rule denies it to %s, and a deny wins over every allow", holder.path())}
	}
	return Decision{Allowed: true, Rule: r.String(), Why: fmt.Sprintf("a rule allows it to %s", holder.path())}
}

// names returns whose rules count: those of the user, of the roles of the
// platform and of the groups.
func (r Request) names() []string {
	var names []string
	if r.Subject != "" {
		names = append(names, r.Subject)
	}
	names = append(names, r.Roles...)
	for _, group := range r.Groups {
		if group != "" && !isRole(group) {
			names = append(names, group)
		}
	}
	return names
}

// anyProject selects the bindings of all AppProjects. No project has this name.
const anyProject = "\x00"

// holder is a name whose rules count in a request: the subject, a group, or a
// role that another holder has.
type holder struct {
	name string
	via  *holder
}

// path returns how the request came to the holder: alice > role:ops.
func (h *holder) path() string {
	if h.via == nil {
		return h.name
	}
	return h.via.path() + " > " + h.name
}

// holders returns the names with their roles and the roles of those, each once,
// so that roles that have each other end. Bindings of an AppProject count for
// requests about that project only.
func (p *Policy) holders(project string, names ...string) []*holder {
	var all []*holder
	seen := map[string]bool{}
	add := func(name string, via *holder) {
		if !seen[name] {
			seen[name] = true
			all = append(all, &holder{name: name, via: via})
		}
	}
	for _, name := range names {
		add(name, nil)
	}
	for i := 0; i < len(all); i++ {
		for _, b := range slices.Concat(p.bindings[all[i].name], builtin.bindings[all[i].name]) {
			if b.project == "" || b.project == project || project == anyProject {
				add(b.role, all[i])
			}
		}
	}
	return all
}

// match returns the first deny that matches, or else the first allow, with the
// holder that has it.
func (p *Policy) match(request Request, project string, holders []*holder) (*rule, *holder) {
	var allow *rule
	var allowed *holder
	for _, h := range holders {
		for _, rules := range [][]rule{p.rules[h.name], builtin.rules[h.name]} {
			for i := range rules {
				r := &rules[i]
				if !r.matches(request, project) {
					continue
				}
				if r.deny {
					return r, h
				}
				if allow == nil {
					allow, allowed = r, h
				}
			}
		}
	}
	return allow, allowed
}

// matches reports whether all fields of the rule take those of the request. A
// rollback is a sync to an old revision, and in Argo CD it needs the right to
// sync: rules about either count. A role of a project may get its project and
// never change it, whatever its patterns take: the project has the limits of the
// role.
func (r *rule) matches(request Request, project string) bool {
	if r.project != "" && (r.project != project || request.Resource == Projects && request.Action != Get) {
		return false
	}
	if !r.resource.match(request.Resource) || !r.object.match(request.Object) {
		return false
	}
	return r.takesAction(request)
}

// takesAction reports whether the field of the action takes that of the request.
func (r *rule) takesAction(request Request) bool {
	if r.action.match(request.Action) {
		return true
	}
	return request.Resource == Applications && request.Action == Rollback && r.action.match(Sync)
}

// String returns the line with its place.
func (r *rule) String() string { return r.place + ": " + strings.Join(r.fields, ", ") }

// projectOf returns the project that a request is about, empty for things that
// belong to none. Clusters and repositories belong to a project if their object
// names one: PROJECT/https://HOST.
func projectOf(request Request) string {
	if request.Resource == Projects {
		return request.Object
	}
	if !slices.Contains(projectResources, request.Resource) {
		return ""
	}
	project, _, ok := strings.Cut(request.Object, "/")
	if !ok {
		return ""
	}
	return project
}

// projectOfRole returns the project of a role of an AppProject:
// proj:PROJECT:ROLE.
func projectOfRole(subject string) (string, bool) {
	parts := strings.Split(subject, ":")
	if len(parts) != 3 || parts[0] != "proj" {
		return "", false
	}
	return parts[1], true
}

// isRole reports whether a name is one of a policy and not of an identity
// provider.
func isRole(name string) bool {
	return strings.HasPrefix(name, "role:") || strings.HasPrefix(name, "proj:") || strings.HasPrefix(name, platformRoles) || strings.HasPrefix(name, runtimes)
}
