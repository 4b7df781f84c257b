"""Compile helpers only as far as their callers need them: as code to copy, without machine code of their own.

Numba optimises every function and translates it to machine code before it compiles the callers, which contain copies
of it and are optimised again. For functions that only compiled code calls this took a third of all compile time.
"""

# mypy: ignore-errors
from __future__ import annotations

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class InlinedLibrary(JITCodeLibrary):
    """The code of a helper, which is linked into the code of its callers but never run by itself."""

    class codegen:
        """Stands for Numba's code generator where it would write to the machine code."""

        @staticmethod
        def set_env(name, environment):
            """Do nothing: the machine code of the kernel has a pointer of its own to the environment."""

    def get_pointer_to_function(self, name):
        """Return the null pointer: helpers have no wrapper for calls from Python."""
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self):
        """Copy called functions into this one; optimise no further, since the kernel's code is optimised as a whole."""
        passes, builder = self._codegen._module_pass_manager(
            loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap"
        )
        passes.run(self._final_module, builder)

    def _finalize_final_module(self):
        """Make the code ready for linking."""
        self._finalize_dynamic_globals()
        self._finalized = True


class HelperCompiler(Compiler):
    """Compiles functions into inlined libraries."""

    def define_pipelines(self):
        """Return Numba's own steps, which use the library that they are given."""
        self.state.library = InlinedLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()
