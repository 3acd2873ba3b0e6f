package project

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

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
	rules   sources
	disk    int64
	file    bool
	object  Object
	keys    []string
}

// Object is a file of a repository that Git LFS keeps on a server.
type Object struct {
	// OID is the sha256 of its content; it is empty for sources that are none.
	OID  string
	Size int64
	// Repository has the file. The address of the source is that of the server,
	// which is the same unless the repository names another one.
	Repository address.Address
}

// Object is the file of Git LFS that the source is.
func (a Admitted) Object() Object { return a.object }

// Source is the source as the Application names it.
func (a Admitted) Source() v1alpha1.ApplicationSource { return a.source }

// Address is where it is.
func (a Admitted) Address() address.Address { return a.address }

// Project is the one whose credentials open it; empty for those of no project.
func (a Admitted) Project() string { return a.project }

// DiskBytes is the disk space of all sources of the project; 0 for that of most
// projects.
func (a Admitted) DiskBytes() int64 { return a.disk }

// SignatureKeys are the keys of which one has to have signed the commit; without any,
// signatures are not checked.
func (a Admitted) SignatureKeys() []string { return a.keys }

// IsFile reports whether it is one file at its address, and no repository.
func (a Admitted) IsFile() bool { return a.file }

// Revision is the repository or chart at its revision, without the path that
// only a render needs.
func (a Admitted) Revision() Admitted {
	a.source = v1alpha1.ApplicationSource{
		RepoURL: a.source.RepoURL, Chart: a.source.Chart, TargetRevision: a.source.TargetRevision, TagPrefix: a.source.TagPrefix,
	}
	return a
}

// CheckArchive returns why an archive that the index of a Helm repository names
// must not be fetched. Below the repository it is a part of it. Elsewhere on its
// host, where the credential of the repository goes too, it has to be allowed like
// a source; on other hosts, which get no credential, it must not be forbidden.
func (a Admitted) CheckArchive(at *url.URL) error {
	base := a.address.URL()
	isHost := at.Scheme == base.Scheme && at.Host == base.Host
	if isHost && isBelow(at.EscapedPath(), base.EscapedPath()) {
		return nil
	}
	place := url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path, RawPath: at.RawPath}
	parsed, err := address.Parse(place.String())
	if err != nil && isHost {
		return err
	}
	if err == nil {
		err = a.rules.checkBelow(parsed)
	}
	if err == nil || !isHost && err != errForbidden {
		return nil
	}
	return fmt.Errorf("project %s does not allow the address %s: %w", a.project, parsed, err)
}

// isBelow reports whether a path is in a folder. One that a server could read
// as leading out of it is not.
func isBelow(path, folder string) bool {
	rest, found := strings.CutPrefix(path, strings.TrimSuffix(folder, "/")+"/")
	for part := range strings.SplitSeq(rest, "/") {
		found = found && part != "" && part != "." && part != ".."
	}
	lower := strings.ToLower(rest)
	return found && !strings.Contains(lower, "%2e") && !strings.Contains(lower, "%2f") && !strings.Contains(lower, "%5c")
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
		return Admitted{}, refusal.New("repoURL", refusal.NotAllowed, "project %s does not allow the repository %s: %v", p.title(), parsed, err)
	}
	return Admitted{source: source, address: parsed, project: p.name, rules: p.sources, disk: p.disk, keys: p.keys}, nil
}

// AdmitFile is Admit for one file at an address. Rules are for repositories, so
// that each folder above the file counts as one.
func (p *Project) AdmitFile(at string) (Admitted, error) {
	parsed, err := address.Parse(at)
	if err != nil {
		return Admitted{}, refusal.New("repoURL", refusal.NotAllowed, "%v", err)
	}
	if err := p.sources.checkBelow(parsed); err != nil {
		return Admitted{}, refusal.New("repoURL", refusal.NotAllowed, "project %s does not allow the file %s: %v", p.title(), parsed, err)
	}
	return Admitted{source: v1alpha1.ApplicationSource{RepoURL: at}, address: parsed, project: p.name, rules: p.sources, disk: p.disk, file: true}, nil
}

// AdmitObject is Admit for a file that Git LFS keeps. An empty server is that of
// the repository; another one has to be allowed as a file is.
func (p *Project) AdmitObject(repoURL, server, oid string, size int64) (Admitted, error) {
	admitted, err := p.Admit(v1alpha1.ApplicationSource{RepoURL: repoURL})
	if err != nil {
		return Admitted{}, err
	}
	object := Object{OID: oid, Size: size, Repository: admitted.address}
	if server != "" {
		if admitted, err = p.AdmitFile(server); err != nil {
			return Admitted{}, err
		}
		admitted.file = false
	}
	admitted.object = object
	return admitted, nil
}

// Unlimited admits every source, with the credentials of a project; an empty
// name is for those of no project. It is for administrators: sets in the control
// namespace that choose a project by parameters, and commands that use the rights
// of their user.
func Unlimited(name string) *Project {
	unlimited := Default()
	unlimited.name = name
	return unlimited
}

// IsUnlimited reports whether the project allows everything, so that it is one
// of administrators.
func (p *Project) IsUnlimited() bool { return p.unlimited }

// sources are the rules of sourceRepos.
type sources []sourceRule

// The reasons of sources.check.
var (
	errForbidden = errors.New("spec.sourceRepos forbids it")
	errNotListed = errors.New("spec.sourceRepos does not have it: add it there")
)

// checkBelow is check for something in a repository. Rules are for repositories,
// so that each folder above it counts as one.
func (s sources) checkBelow(at address.Address) error {
	result := errNotListed
	for {
		switch err := s.check(at, ""); {
		case errors.Is(err, errForbidden):
			return err
		case err == nil:
			result = nil
		}
		if at.Path == "" {
			return result
		}
		at.Path = at.Path[:max(strings.LastIndexByte(at.Path, '/'), 0)]
	}
}

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
