// Package storetest has the suite that every [vectorstore.Store] passes, those of this module and your own.
//
// A test calls [Run] with a function that makes an empty store:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) vectorstore.Store { return newEmptyStore(t) })
//	}
//
// Every test of the suite asks for a store of its own. A store that needs a schema makes it from [Properties], [Vectors] and
// [MultiVectors], and takes other properties as they come; it has no tenants, compares by cosine, and may normalize vectors. What a
// store can beyond [vectorstore.Store] it says by the interfaces that it has ([vectorstore.Clearer], [vectorstore.VersionedClearer],
// [vectorstore.Conditional], [vectorstore.Tenanted]), and what it cannot by [vectorstore.ErrUnsupported] for a query or a
// multi-vector and [vectorstore.ErrValue] for a value: the suite logs the latter, and looks that nothing is dropped without a word.
// [RunTenants] and [RunRestart] are for stores that keep tenants apart, and that outlive their process.
package storetest
