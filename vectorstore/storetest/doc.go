// Package storetest has the suite that every [vectorstore.Store] passes, those of this module and your own.
//
// A test calls [Run] with a function that makes an empty store:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) vectorstore.Store { return newEmptyStore(t) })
//	}
//
// Every test of the suite asks for a store of its own. A store that needs a schema makes it from [Properties] and
// [Vectors]; it has no tenants, compares by cosine, and may normalize vectors. The parts about
// [vectorstore.Clearer] and [vectorstore.VersionedClearer] run for stores that are one.
package storetest
