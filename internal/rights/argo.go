package rights

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// ConfigMap is the name of the ConfigMap that has the policy in Argo CD.
const ConfigMap = "argocd-rbac-cm"

// ParseConfig reads the data of argocd-rbac-cm: policy.csv, every
// policy.NAME.csv in the order of their keys, policy.default and
// policy.matchMode. The key scopes is for the sign-in: it names the claims that
// become Groups.
func ParseConfig(data map[string]string) (*Policy, []refusal.Refusal) {
	object := refusal.Object{Kind: "ConfigMap", Name: ConfigMap}
	var refusals []refusal.Refusal
	mode := Mode(data["policy.matchMode"])
	switch mode {
	case "":
		mode = Glob
	case Glob, Regex:
	default:
		refusals = append(refusals, refusal.New("data[policy.matchMode]", refusal.Invalid, "it is %q: write glob or regex", string(mode)).Of(object))
		mode = Glob
	}
	policy := newPolicy(mode)
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if key != "policy.csv" && !(strings.HasPrefix(key, "policy.") && strings.HasSuffix(key, ".csv")) {
			continue
		}
		part, problems := ParseMode(data[key], "data["+key+"]", mode)
		policy = Merge(policy, part)
		for _, problem := range problems {
			refusals = append(refusals, problem.Of(object))
		}
	}
	return policy.WithDefault(strings.TrimSpace(data["policy.default"])), refusals
}

// ProjectRole is a role of an AppProject (spec.roles).
type ProjectRole struct {
	Name     string
	Policies []string // p lines of the role itself
	Groups   []string
}

// ParseProject reads the roles of an AppProject. Its rules and its groups count
// for requests about that project only, whatever the patterns take. Each role
// may also get the project.
func ParseProject(project string, roles []ProjectRole, mode Mode) (*Policy, []refusal.Refusal) {
	p := &parser{policy: newPolicy(mode)}
	for _, role := range roles {
		subject := "proj:" + project + ":" + role.Name
		own := []string{"p", subject, Projects, Get, project, "allow"}
		if get, problem := compileRule(own, Glob); problem == nil { // names of objects are no patterns
			p.addProjectRule(project, own, get)
		}
		for i, line := range role.Policies {
			place := fmt.Sprintf("spec.roles[%s].policies[%d]", role.Name, i)
			p.refuse(place, p.projectLine(project, subject, line))
		}
		for _, group := range role.Groups {
			p.policy.bindings[group] = append(p.policy.bindings[group], binding{role: subject, project: project})
		}
	}
	object := refusal.Object{Group: "argoproj.io", Kind: "AppProject", Name: project}
	for i := range p.refusals {
		p.refusals[i] = p.refusals[i].Of(object)
	}
	return p.policy, refusal.Bounded(p.refusals, maxRefusals)
}

// projectLine reads a p line of a role of an AppProject. It may only be about
// that role, and only about its project.
func (p *parser) projectLine(project, subject, line string) *refusal.Refusal {
	if p.count++; p.count > maxLines {
		return refusal.New("", refusal.TooMany, "it is not read: a project has at most %d", maxLines)
	}
	if strings.ContainsAny(line, "\n\r") {
		return refusal.New("", refusal.Invalid, "it is more than one line: write each rule as an item of the list")
	}
	fields, problem := splitLine(strings.TrimSpace(line))
	if problem != nil {
		return problem
	}
	if fields[0] != "p" || len(fields) < 2 || fields[1] != subject {
		return refusal.New("", refusal.NotAllowed, "a role of a project has rules for itself only: write p, %s, RESOURCE, ACTION, OBJECT, allow|deny, and list its members in groups", subject)
	}
	r, problem := compileRule(fields, p.policy.mode)
	if problem != nil {
		return problem
	}
	if !slices.ContainsFunc(projectResources, r.resource.match) {
		return refusal.New("", refusal.NotAllowed, "a role of a project has rights on %s only, not on %s: write the rule in policy.csv of %s", strings.Join(projectResources, ", "), fields[2], ConfigMap)
	}
	if named, _, ok := strings.Cut(fields[4], "/"); ok && isLiteral(named, p.policy.mode) && named != project {
		return refusal.New("", refusal.NotAllowed, "the object %q is of project %s, and a role of project %s has no rights there: write %s/*", fields[4], named, project, project)
	}
	p.addProjectRule(project, fields, r)
	return nil
}

// addProjectRule adds a rule that counts within a project.
func (p *parser) addProjectRule(project string, fields []string, r rule) {
	r.project, r.place, r.fields = project, "AppProject "+project, fields
	p.policy.rules[fields[1]] = append(p.policy.rules[fields[1]], r)
}

// ApplicationObject returns the object of an Application in a request. Its
// namespace is a part of it only outside the control namespace, as in Argo CD.
func ApplicationObject(project, namespace, name, controlNamespace string) string {
	if project == "" {
		project = "default"
	}
	if namespace == "" || namespace == controlNamespace {
		return project + "/" + name
	}
	return project + "/" + namespace + "/" + name
}
