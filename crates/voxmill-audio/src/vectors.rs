//! Wider vectors where the processor has them.

/// Defines a method that runs another one, `#[inline(always)]`, compiled for AVX2 where the processor
/// has it. Wider vectors do the same sums in the same order: the bits are those of the plain path.
macro_rules! with_wide_vectors {
    ($this:ty: $name:ident = $plain:ident($($argument:ident: $type:ty),*)) => {
        fn $name(&mut self, $($argument: $type),*) {
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                #[target_feature(enable = "avx2")]
                fn with_avx2(this: &mut $this, $($argument: $type),*) {
                    this.$plain($($argument),*);
                }
                #[expect(unsafe_code, reason = "a function for AVX2 may only run where there is AVX2")]
                // SAFETY: the processor has just been asked.
                return unsafe { with_avx2(self, $($argument),*) };
            }
            self.$plain($($argument),*);
        }
    };
}

pub(crate) use with_wide_vectors;
