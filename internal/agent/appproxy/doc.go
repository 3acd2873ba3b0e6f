// Package appproxy is the API of a runtime about its Applications and about
// itself. The platform calls it on behalf of a user.
//
//	service        authentication, the Application a request names, and limits
//	rights         what the user may do with an Application
//	applications   list, get, tree, one object, history, events
//	compare        the diff that a sync would make
//	operate        sync, rollback, terminate, refresh, delete
//	releases       canary and blue-green releases, and their actions
//	promotions     which version is where; promotionacts starts, approves, aborts
//	watch          one watch of Applications, shared by all streams
//	treewatch      the viewers of trees; treefeed reads a tree after a change,
//	               and scopes watches the objects that trees are read from
//	logs           logs of containers, merged
//	components     the runtime itself, and the logs of its own Pods
//	preflight      the checks of an installed runtime, streamed
//	webhooks       requests of Git hosts, by the name of a source
//
// It promises that it serves only Applications of the agent's namespaces, and
// of the cluster only objects of the named Application: those with its tracking
// marks, and those they own by UID. Every request about an Application needs a
// right on it, by the role of the user or a policy; see decision 0034 in
// docs/decisions. A comparison is limited by the
// Application's project. No response contains a value of a Secret. A sync
// records the user who requested it.
//
// It refuses requests without the claims of a token, which the router verifies
// and puts into the context. It has no rights beyond the agent's, and reads no
// more of the cluster than the agent may.
package appproxy
