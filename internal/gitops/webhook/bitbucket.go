package webhook

import "cmp"

// maxRefs bounds the branches and tags of one request.
const maxRefs = 1000

// bitbucketCloudPush is the part of a push that matters here. It has no paths.
type bitbucketCloudPush struct {
	PullRequest *struct{} `json:"pullrequest"`
	Push        struct {
		Changes []struct {
			Old *bitbucketCloudRef `json:"old"`
			New *bitbucketCloudRef `json:"new"`
		} `json:"changes"`
	} `json:"push"`
	Repository struct {
		FullName string `json:"full_name"`
		Links    struct {
			HTML struct {
				Href string `json:"href"`
			} `json:"html"`
		} `json:"links"`
	} `json:"repository"`
}

// bitbucketCloudRef is one side of a change: a branch or tag and its commit.
type bitbucketCloudRef struct {
	Type   string `json:"type"`
	Name   string `json:"name"`
	Target struct {
		Hash string `json:"hash"`
	} `json:"target"`
}

// ref is the full name. Bitbucket has named branches for other systems, which
// are branches all the same.
func (r *bitbucketCloudRef) ref() string {
	if r.Type == "tag" || r.Type == "annotated_tag" {
		return "refs/tags/" + r.Name
	}
	return "refs/heads/" + r.Name
}

// readBitbucketCloud reads a push or a change of a pull request. Bitbucket Cloud sends no paths, so that
// every push may touch everything.
func readBitbucketCloud(provider Provider, body []byte) ([]Push, error) {
	var sent bitbucketCloudPush
	if err := decode(body, &sent); err != nil {
		return nil, err
	}
	name := sent.Repository.FullName
	urls := []string{sent.Repository.Links.HTML.Href}
	if name != "" {
		// Requests do not have the addresses to clone from, which follow from the
		// name.
		urls = append(urls, "https://bitbucket.org/"+name+".git", "git@bitbucket.org:"+name+".git")
	}
	urls = addresses(urls...)
	if sent.PullRequest != nil {
		return newPullRequest(Push{Provider: provider, Repository: name, RepositoryURLs: urls})
	}
	var pushes []Push
	for _, change := range sent.Push.Changes[:min(len(sent.Push.Changes), maxRefs)] {
		push := Push{Provider: provider, Repository: name, RepositoryURLs: urls}
		switch {
		case change.New != nil:
			push.Ref, push.After = change.New.ref(), change.New.Target.Hash
		case change.Old != nil:
			push.Ref = change.Old.ref()
		default:
			continue
		}
		if change.Old != nil {
			push.Before = change.Old.Target.Hash
		}
		push, err := newPush(push)
		if err != nil {
			return nil, err
		}
		pushes = append(pushes, push)
	}
	return pushes, nil
}

// pingOfBitbucketServer is sent by the button that tests a connection. Older
// versions do not sign it.
const pingOfBitbucketServer = "diagnostics:ping"

// bitbucketServerPush is the part of a push that matters here. It has no paths.
type bitbucketServerPush struct {
	Repository bitbucketServerRepository `json:"repository"`
	Changes    []struct {
		Ref struct {
			ID string `json:"id"`
		} `json:"ref"`
		RefID    string `json:"refId"`
		FromHash string `json:"fromHash"`
		ToHash   string `json:"toHash"`
	} `json:"changes"`
}

// bitbucketServerRepository is a repository. Before version 8 it has no links.
type bitbucketServerRepository struct {
	Slug    string `json:"slug"`
	Project struct {
		Key string `json:"key"`
	} `json:"project"`
	Links struct {
		Clone []bitbucketLink `json:"clone"`
	} `json:"links"`
}

// names returns the name and the addresses.
func (r *bitbucketServerRepository) names() (name string, urls []string) {
	if r.Project.Key != "" && r.Slug != "" {
		name = r.Project.Key + "/" + r.Slug
	}
	for _, link := range r.Links.Clone[:min(len(r.Links.Clone), maxRefs)] {
		urls = append(urls, link.Href)
	}
	return name, addresses(urls...)
}

// bitbucketLink is an address to clone from.
type bitbucketLink struct {
	Href string `json:"href"`
}

// readBitbucketServer reads a push of Bitbucket Data Center, whose
// changes have the name of their ref in ref.id, or else in refId.
func readBitbucketServer(provider Provider, body []byte) ([]Push, error) {
	var sent bitbucketServerPush
	if err := decode(body, &sent); err != nil {
		return nil, err
	}
	name, urls := sent.Repository.names()
	var pushes []Push
	for _, change := range sent.Changes[:min(len(sent.Changes), maxRefs)] {
		ref := cmp.Or(change.Ref.ID, change.RefID)
		push, err := newPush(Push{
			Provider: provider, Repository: name, RepositoryURLs: urls, Ref: ref, Before: change.FromHash, After: change.ToHash,
		})
		if err != nil {
			return nil, err
		}
		pushes = append(pushes, push)
	}
	return pushes, nil
}

// readBitbucketServerPullRequest reads a change of a pull request, which is for
// the repository of its target.
func readBitbucketServerPullRequest(provider Provider, body []byte) ([]Push, error) {
	var sent struct {
		PullRequest struct {
			ToRef struct {
				Repository bitbucketServerRepository `json:"repository"`
			} `json:"toRef"`
		} `json:"pullRequest"`
	}
	if err := decode(body, &sent); err != nil {
		return nil, err
	}
	name, urls := sent.PullRequest.ToRef.Repository.names()
	return newPullRequest(Push{Provider: provider, Repository: name, RepositoryURLs: urls})
}
