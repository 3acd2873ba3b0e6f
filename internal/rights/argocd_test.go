package rights_test

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/rights"
)

// example is a policy that Argo CD's documentation has, with the decisions that
// the page states or that follow from its rules.
type example struct {
	policy    *rights.Policy
	refusals  []refusal.Refusal
	lines     int // of p and g
	decisions []string
}

// readExample reads an archive: a part policy.csv, policy.NAME.csv and
// "project NAME" for each source of rules, config for the settings.
func readExample(t *testing.T, file string) example {
	t.Helper()
	archive := must.Get(txtar.ParseFile(file))(t)
	var found example
	config, projects := map[string]string{}, map[string][]rights.ProjectRole{}
	inherit := false
	for _, part := range archive.Files {
		text := string(part.Data)
		found.lines += strings.Count("\n"+text, "\np, ") + strings.Count("\n"+text, "\ng, ")
		switch project, isProject := strings.CutPrefix(part.Name, "project "); {
		case isProject:
			projects[project] = readRoles(text)
		case part.Name == "decisions":
			found.decisions = strings.Split(strings.TrimSpace(text), "\n")
		case part.Name == "config":
			for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
				key, value, _ := strings.Cut(line, " ")
				inherit = inherit || key == "inherit"
				config["policy."+key] = value
			}
		default:
			config[part.Name] = text
		}
	}
	found.policy, found.refusals = rights.ParseConfig(config)
	for name, roles := range projects {
		part, refusals := rights.ParseProject(name, roles, found.policy.Mode())
		found.policy = rights.Merge(found.policy, part)
		found.refusals = append(found.refusals, refusals...)
	}
	if inherit {
		found.policy = found.policy.WithInheritance()
	}
	return found
}

// readRoles reads the roles of a project.
func readRoles(text string) []rights.ProjectRole {
	var roles []rights.ProjectRole
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		last := len(roles) - 1
		if name, ok := strings.CutPrefix(line, "role "); ok {
			roles = append(roles, rights.ProjectRole{Name: name})
		} else if group, ok := strings.CutPrefix(line, "group "); ok {
			roles[last].Groups = append(roles[last].Groups, group)
		} else {
			roles[last].Policies = append(roles[last].Policies, line)
		}
	}
	return roles
}

// TestArgoCD decides Argo CD's published examples as its documentation does.
func TestArgoCD(t *testing.T) {
	files := must.Get(filepath.Glob("testdata/argocd/*.txtar"))(t)
	lines, allowed, denied := 0, 0, 0
	for _, file := range files {
		example := readExample(t, file)
		if len(example.refusals) > 0 {
			t.Errorf("%s: %v", file, example.refusals)
		}
		lines += example.lines
		for _, line := range example.decisions {
			fields := strings.Fields(line)
			if len(fields) != 5 {
				t.Fatalf("%s: %q has %d fields", file, line, len(fields))
			}
			subject, groups, _ := strings.Cut(fields[1], "+")
			decision := example.policy.Decide(rights.Request{
				Subject: subject, Groups: strings.Split(groups, ","), Resource: fields[2], Action: fields[3], Object: fields[4],
			})
			if decision.Allowed != (fields[0] == "yes") {
				t.Errorf("%s: %s: got %+v", file, line, decision)
			}
			if decision.Why == "" || decision.Allowed && decision.Rule == "" {
				t.Errorf("%s: %s: no reason: %+v", file, line, decision)
			}
			if decision.Allowed {
				allowed++
			} else {
				denied++
			}
		}
	}
	if lines < 80 || allowed < 80 || denied < 80 {
		t.Errorf("%d files: %d lines, %d requests allowed, %d not: an example is missing", len(files), lines, allowed, denied)
	}
}
