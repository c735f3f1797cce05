import mpmath as mp, numpy as np
mp.mp.dps=40
def remez(f,w,a,b,n,iters=15):
    # minimize max |w(x)(p(x)-f(x))|
    xs=[(a+b)/2+(b-a)/2*mp.cos(mp.pi*(2*i+1)/(2*(n+2))) for i in range(n+2)]
    xs=sorted(xs)
    grid=[a+(b-a)*mp.mpf(i)/2000 for i in range(2001)]
    fv=[f(x) for x in grid]; wv=[w(x) for x in grid]
    for it in range(iters):
        A=mp.matrix(n+2,n+2); y=mp.matrix(n+2,1)
        for i,x in enumerate(xs):
            for j in range(n+1): A[i,j]=x**j
            A[i,n+1]=(-1)**i/w(x); y[i]=f(x)
        c=mp.lu_solve(A,y); co=[c[j] for j in range(n+1)]
        e=[(mp.polyval(co[::-1],x)-fx)*ww for x,fx,ww in zip(grid,fv,wv)]
        # extrema
        new=[];cur=0
        i=0
        while i<len(e):
            s=mp.sign(e[i]); j=i; best=i
            while j<len(e) and mp.sign(e[j])==s:
                if abs(e[j])>abs(e[best]): best=j
                j+=1
            new.append(best); i=j
        while len(new)>n+2:
            if abs(e[new[0]])<abs(e[new[-1]]): new.pop(0)
            else: new.pop()
        if len(new)<n+2: break
        xs=[grid[k] for k in new]
    return co,max(abs(v) for v in e)
ln2=mp.log(2)
co,err=remez(lambda r: mp.mpf(1)/2 if r==0 else (mp.e**r-1-r)/r**2,lambda r: r**2 if r!=0 else mp.mpf(10)**-12,-ln2/2*1.01,ln2/2*1.01,4)
print("exp: 1+r+r^2*poly4",[mp.nstr(x,12) for x in co],mp.nstr(err,5))
erfcx=lambda z: mp.e**(z*z)*mp.erfc(z)
for cc in (0.3,0.35,0.4,0.45,0.5):
  for n in (8,9,10):
    # t=1/(1+cc z); z=(1/t-1)/cc, z in [0,10]; approximates erfcx/t
    c=mp.mpf(cc); zmax=10; 
    f=lambda t: erfcx((1/t-1)/c)/t
    co,err=remez(f,lambda t: 1/f(t),1/(1+c*zmax),mp.mpf(1),n,8)
    print(cc,n,mp.nstr(err,4),[mp.nstr(x,10) for x in co] if n in(9,10) else '')
