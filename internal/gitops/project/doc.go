// Package project decides what the Applications of an AppProject may do. It is
// the one gate that every object passes: resources, hooks, prunes and the
// namespace that is created for them.
//
// # Rules
//
// They are those that Argo CD documents.
//
//   - sourceRepos and destinations: one rule without ! has to allow, and none
//     with ! may forbid. A destination that has a ! in any of its fields only
//     forbids. Addresses of repositories are parsed, and compared with the parts
//     of a pattern: scheme, user of SSH, host, port and path, in lower case and
//     without .git at the end.
//   - sourceNamespaces: where Applications may be besides the control namespace,
//     as patterns or, between slashes, as regular expressions.
//   - An object without a namespace needs clusterResourceWhitelist, and must not
//     be in clusterResourceBlacklist. One with a namespace must not be in
//     namespaceResourceBlacklist, and has to be in namespaceResourceWhitelist if
//     that is there, even if it is empty. Its namespace has to be a destination.
//   - A cluster whose Secret names the project is a destination of it, and with
//     permitOnlyProjectScopedClusters only such clusters are.
//   - A global project of argocd-cm is merged into the projects that its selector
//     matches. Without it they allow nothing.
//   - destinationServiceAccounts: the first that fits the destination of an
//     Application is whose rights count. If a project has any and none fits, the
//     Application is refused: it must not get more rights than the others.
//
// # Where it is stricter
//
// The control namespace is where AppProjects are, and Applications that may be in
// any of them; who writes there gives himself what he likes. Argo CD leaves it to
// administrators to keep tenants out. Here a project that has limits
//
//   - reaches the control namespace only if one of its destinations names it, a
//     pattern does not do, and only for Applications that are there themselves;
//   - writes Applications and ApplicationSets of its own there, and everything
//     else only if namespaceResourceWhitelist names the kind: a Secret there is a
//     credential, a Deployment can run as the agent;
//   - overwrites and deletes none of another project: the live object is judged
//     like the desired one;
//   - takes over nothing that another Application owns;
//   - never touches what the charts of the runtime install.
//
// A project without any limit, as default is made, is not concerned: its
// Applications can do everything anyway. Neither are Applications that are
// created outside of the control namespace, because sourceNamespaces limits the
// projects they can be in.
//
// A Namespace object has to have the name of a destination too: its labels decide
// what Pods in it may do, and to delete it deletes what is in it.
//
// Sources pass [Project.Admit] wherever they are named, and nothing is fetched
// without its result. Addresses that could be read in two ways are refused. A
// rule with ! for https is for http too, one without a scheme is for every way to
// a repository, and the chart of a registry is a part of its path (decision 0032
// in docs/decisions).
//
// # Promises
//
// [Compile] reports rules that cannot be read, and until they are corrected
// they fail closed: one that allows allows nothing, one that forbids forbids
// everything. Refusals name the field of the AppProject to change. It sends no
// requests, and everything is safe for concurrent use.
package project
