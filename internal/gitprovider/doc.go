// Package gitprovider is a client of the REST APIs of Git providers: GitHub
// and GitHub Enterprise, GitLab (cloud and self-managed), Bitbucket Cloud,
// and Bitbucket Server or Data Center. It infers the provider of a repository
// URL, checks the permissions of a token, and creates repositories and
// webhooks. A [Listing] lists pull requests and repositories, of Gitea
// too, also without a token. [PullRequests] opens pull requests, reads their state
// and comments on them.
//
// It guarantees:
//
//   - [Provider.Check] has no side effects. Missing permissions have the
//     provider's names; what no documented call reveals is reported as
//     unverified instead of guessed.
//   - The token is sent to the API's own origin only: a cross-origin redirect
//     is an error. It is never part of an error, regardless of the response.
//   - Responses are bounded in size, lists in pages, and every request in time.
//     Idempotent requests are retried twice after a 5xx.
//   - Webhooks are idempotent: repeated calls leave one hook. So are pull requests
//     between two branches, and comments by their key.
//
// It rejects plain HTTP except on loopback or when it is allowed, and
// repositories on another host than the API's.
//
// It uses net/http and the documented REST calls. Client libraries would add
// hundreds of calls for the few that are needed, and none reports which
// permissions a token lacks.
package gitprovider
