package project

import (
	"errors"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/source/address"
)

// Admitted is a source that a project allows, with its parsed address. Only
// [Project.Admit] makes one, and nothing is fetched without it: a source cannot
// get past the project because a caller forgot to check it.
type Admitted struct {
	source  v1alpha1.ApplicationSource
	address address.Address
	project string
}

// Source is the source as the Application names it.
func (a Admitted) Source() v1alpha1.ApplicationSource { return a.source }

// Address is where it is.
func (a Admitted) Address() address.Address { return a.address }

// Project is the one whose credentials open it; empty for those of no project.
func (a Admitted) Project() string { return a.project }

// Revision is the repository or chart at its revision, without the path that
// only a render needs.
func (a Admitted) Revision() Admitted {
	a.source = v1alpha1.ApplicationSource{RepoURL: a.source.RepoURL, Chart: a.source.Chart, TargetRevision: a.source.TargetRevision}
	return a
}

// Admit checks a source, wherever it is named: in a spec, an operation, a
// status, a history or a generator. The error is a *refusal.Refusal that has no
// credentials in it.
func (p *Project) Admit(source v1alpha1.ApplicationSource) (Admitted, error) {
	parsed, err := address.Parse(source.RepoURL)
	if err != nil {
		return Admitted{}, refusal.New("repoURL", refusal.NotAllowed, "%v", err)
	}
	if err := p.sources.check(parsed, source.Chart); err != nil {
		return Admitted{}, refusal.New("repoURL", refusal.NotAllowed, "project %s does not allow the repository %s: %v", p.name, parsed, err)
	}
	return Admitted{source: source, address: parsed, project: p.name}, nil
}

// Unlimited admits every source, with the credentials of a project; an empty
// name is for those of no project. It is for whoever owns the runtime: sets in
// the control namespace, and commands that use the rights of their user.
func Unlimited(name string) *Project {
	unlimited := Default()
	unlimited.name = name
	return unlimited
}

// sources are the rules of sourceRepos.
type sources []sourceRule

// The reasons of sources.check.
var (
	errForbidden = errors.New("spec.sourceRepos forbids it")
	errNotListed = errors.New("spec.sourceRepos does not have it: add it there")
)

// check returns why an address must not be used. The rules with ! are for the
// chart of a registry as well, which is a part of its path.
func (s sources) check(at address.Address, chart string) error {
	at = at.Canonical()
	allowed := false
	for i := range s {
		rule := &s[i]
		if rule.deny {
			if rule.match(at) || rule.match(at.MainHost()) || chart != "" && rule.match(at.Below(chart)) {
				return errForbidden
			}
		} else {
			allowed = allowed || rule.match(at)
		}
	}
	if !allowed {
		return errNotListed
	}
	return nil
}
