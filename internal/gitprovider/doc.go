// Package gitprovider talks to the web APIs of the Git providers: GitHub and
// GitHub Enterprise, GitLab (cloud and server), Bitbucket Cloud, and Bitbucket
// Server or Data Center. It says whose provider a repository's address is, what
// a token may do, and it makes repositories and webhooks.
//
// It promises:
//   - [Provider.Check] changes nothing at the provider. What is missing is named
//     as the provider names it; what no documented call can tell is listed as
//     unverified instead of being guessed.
//   - The token goes to the API's own origin only: a redirect elsewhere is an
//     error. It is never in an error, whatever the server answers.
//   - Answers are read up to a limit, lists up to a number of pages, and every
//     request has a deadline. A request that may be sent twice is tried again
//     twice after a 5xx.
//   - Webhooks are idempotent: the same call again leaves one hook.
//
// It refuses plain HTTP except to this machine or when it was allowed, and
// repositories of another host than the API's.
//
// It uses net/http and the documented REST calls. Client libraries would bring
// hundreds of calls for the handful that are needed here, and none of them
// answers what a token may not do.
package gitprovider
