package appset

import (
	"testing"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/webhook"
)

// A set is concerned by changes of what its generators read, with any address that
// depends on parameters or is a number.
func TestInputs(t *testing.T) {
	push := webhook.Push{RepositoryURLs: []string{"https://git.example/acme/team/shop.git", "git@git.example:acme/team/shop.git"}}
	pull := webhook.Push{PullRequest: true, RepositoryURLs: push.RepositoryURLs}
	for generator, want := range map[string]struct{ push, pull bool }{
		"git: {repoURL: 'https://git.example/acme/team/shop'}":                                            {push: true},
		"git: {repoURL: 'https://git.example/{{.owner}}/shop'}":                                           {push: true},
		"git: {repoURL: 'https://git.example/acme/team/other'}":                                           {},
		"pullRequest: {gitlab: {api: 'https://git.example', project: acme/team/shop}}":                    {pull: true},
		"pullRequest: {gitlab: {api: 'https://git.example', project: '42'}}":                              {pull: true},
		"pullRequest: {gitlab: {api: 'https://git.example', project: '{{.project}}'}}":                    {pull: true},
		"pullRequest: {gitlab: {api: 'https://git.example', project: acme/team/other}}":                   {},
		"pullRequest: {gitea: {api: 'https://git.example', owner: acme/team, repo: shop}}":                {pull: true},
		"pullRequest: {bitbucketServer: {api: 'https://git.example', project: acme/team, repo: shop}}":    {},
		"scmProvider: {gitlab: {api: 'https://git.example', group: acme}}":                                {push: true},
		"scmProvider: {gitlab: {api: 'https://git.example', group: acme/team}}":                           {push: true},
		"scmProvider: {gitlab: {api: 'https://git.example', group: other}}":                               {},
		"scmProvider: {gitlab: {api: 'https://git.example', group: '7'}}":                                 {push: true},
		"scmProvider: {azureDevOps: {api: 'https://git.example', organization: acme, teamProject: team}}": {},
		"scmProvider: {github: {organization: acme}}":                                                     {},
		"list: {elements: []}": {},
	} {
		var g v1alpha1.Generator
		if err := yaml.Unmarshal([]byte(generator), &g); err != nil {
			t.Fatal(err)
		}
		var read inputs
		read.add(&g)
		if got := read.concerns(push); got != want.push {
			t.Errorf("%s is concerned by a push: %t", generator, got)
		}
		if got := read.concerns(pull); got != want.pull {
			t.Errorf("%s is concerned by a pull request: %t", generator, got)
		}
	}
}
